"""Signals: the first asks, the second stops, the handlers of before come back."""

import signal
import threading

import pytest

from dllmzoo.training import interrupt
from dllmzoo.training.interrupt import CAUGHT, stop_request


@pytest.mark.parametrize("number", CAUGHT)
def test_the_first_signal_asks_and_the_second_stops(number):
    with stop_request() as stop:
        assert stop.signal is None
        signal.raise_signal(number)
        assert stop.signal == signal.Signals(number).name
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert stop.signal == signal.Signals(number).name, "the first one is named"


def test_a_launcher_that_passes_the_same_interrupt_on_is_no_second_one(monkeypatch):
    now = [10.0]
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(interrupt.time, "monotonic", lambda: now[0])
    with stop_request() as stop:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)  # from torchrun, right after the terminal's
        assert stop.signal == "SIGINT"
        now[0] += 3.0
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_the_handlers_of_before_come_back_even_after_an_error():
    before = {number: signal.getsignal(number) for number in CAUGHT}
    with pytest.raises(ZeroDivisionError), stop_request():
        raise ZeroDivisionError
    assert {number: signal.getsignal(number) for number in CAUGHT} == before


def test_a_block_around_learns_what_was_asked_inside():
    with stop_request() as outer:
        with stop_request():
            signal.raise_signal(signal.SIGTERM)
        assert outer.signal == "SIGTERM", "a run that ended anyway must not swallow it"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_outside_the_main_thread_nothing_is_caught():
    seen = []

    def work():
        with stop_request() as stop:
            seen.append((stop.signal, signal.getsignal(signal.SIGTERM)))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(None, before)]
