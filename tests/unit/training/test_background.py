"""A thread beside the loop: order, settings, errors, and how it is abandoned."""

import contextvars
import gc
import threading
import weakref
from concurrent.futures import CancelledError

import pytest
import torch

from dllmzoo.training.background import Background

NUMBER = contextvars.ContextVar("NUMBER", default=0)


class Weights:
    """Something that can be watched."""


def test_calls_are_made_in_order_in_one_other_thread():
    thread, made = Background("a"), []
    calls = [thread.call(lambda i=i: made.append((i, threading.get_ident()))) for i in range(5)]
    thread.finish()
    assert [i for i, _ in made] == list(range(5)) and all(call.done() for call in calls)
    assert {ident for _, ident in made} != {threading.get_ident()}
    assert len({ident for _, ident in made}) == 1


def test_an_error_reaches_whoever_asks_and_the_calls_after_it_are_made():
    thread = Background("a")
    bad, good = thread.call(lambda: 1 // 0), thread.call(lambda: 7)
    with pytest.raises(ZeroDivisionError):
        bad.result(30)
    assert good.result(30) == 7
    thread.finish()


def test_a_call_sees_the_context_of_the_caller_and_the_setting_of_the_thread():
    thread = Background("a", torch.no_grad)
    NUMBER.set(3)
    call = thread.call(lambda: (NUMBER.get(), torch.is_grad_enabled()))
    assert call.result(30) == (3, False) and torch.is_grad_enabled()
    thread.finish()


def test_nothing_of_a_call_is_kept_once_it_is_made():
    thread, held = Background("a"), Weights()
    known = weakref.ref(held)
    thread.call(lambda held=held: None).result(30)
    del held
    thread.call(lambda: None).result(30)
    gc.collect()
    assert known() is None
    thread.finish()


def test_abandoned_work_is_interrupted_and_what_has_not_begun_is_dropped():
    thread, begun = Background("a"), threading.Event()

    def endless():
        begun.set()
        while True:
            threading.Event().wait(0.001)

    running, waiting = thread.call(endless), thread.call(lambda: 1)
    assert begun.wait(30)
    thread.abandon()
    assert not thread._thread.is_alive() and running.done()
    with pytest.raises(CancelledError):
        waiting.result(30)


def test_a_thread_without_work_ends_at_once():
    for end in (Background.finish, Background.abandon):
        idle, asked = Background("a"), Background("b")
        asked.call(lambda: 1).result(30)
        for thread in (idle, asked):
            end(thread)
            assert not thread._thread.is_alive()


def test_abandoning_does_not_wait_for_a_call_that_the_thread_has_just_taken():
    thread, go = Background("a"), threading.Event()
    thread.call(go.wait)
    thread.call(lambda: None)
    real = thread._calls

    class Raced:
        """The thread takes the last call between a look and the reach for it."""

        def __getattr__(self, name):
            return getattr(real, name)

        def empty(self):
            known = real.empty()
            go.set()
            threading.Event().wait(0.2)
            return known

    thread._calls = Raced()
    done = threading.Thread(target=thread.abandon, daemon=True)
    done.start()
    done.join(20)
    assert not done.is_alive()
