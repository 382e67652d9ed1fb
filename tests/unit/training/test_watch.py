"""The watch over processes: who is gone, who has failed, who ended well."""

import socket
import threading
from datetime import timedelta

import pytest
import torch
from torch import distributed

from dllmzoo.errors import HealthError, RunError
from dllmzoo.training import watch as watching
from dllmzoo.training.watch import Watch, is_lost_connection, may_be_silent, watched


@pytest.fixture
def store():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return distributed.TCPStore("127.0.0.1", port, is_master=True, timeout=timedelta(seconds=5))


class Processes:
    """Watches with short times, as threads; what they would say when they leave."""

    def __init__(self, store, number, grace=0.05, silence=0.4):
        self.said, self.left = [], threading.Event()
        self.all = [
            Watch(
                store, rank, number, advice=lambda: "start again", leave=self._leave, beat=0.02,
                silence=silence, grace=grace,
            )
            for rank in range(number)
        ]  # fmt: skip

    def _leave(self, message):
        self.said.append(message)
        self.left.set()

    def start(self):
        for each in self.all:
            each.start()

    def end(self):
        for each in self.all:
            each.ended.set()
            each.join(5)


def test_a_silent_process_ends_the_others(store):
    three = Processes(store, 3)
    for each in three.all[:2]:  # the third never gives a sign of life
        each.start()
    for each in three.all[:2]:
        each.join(5)
    assert len(three.said) == 2
    assert all("process 2 has been silent for 0.4 s" in message for message in three.said)
    assert all("the run of 3 processes ends here; start again" in each for each in three.said)


def test_the_others_end_at_once_with_the_word_of_a_process_that_failed(store):
    two = Processes(store, 2, silence=60)
    two.start()
    two.all[1].stop(failed="process 1 failed: disk full")
    assert two.left.wait(5)
    assert two.said == [
        "[process 0] process 1 failed: disk full; the run of 2 processes ends here; start again"
    ]
    two.end()


def test_a_process_that_ended_well_may_be_silent(store):
    two = Processes(store, 2)
    two.start()
    two.all[1].stop()
    assert not two.left.wait(1.0)
    two.end()


def test_a_process_may_be_silent_while_it_reads_or_writes_a_model(store):
    two = Processes(store, 2, silence=0.3)
    two.all[0].start()
    with may_be_silent(two.all[1]):
        assert not two.left.wait(0.8)
    assert two.left.wait(5) and "process 1 has been silent" in two.said[0]
    two.all[0].join(5)


def test_a_process_that_ends_by_its_own_error_is_not_ended(store):
    two = Processes(store, 2, grace=30)
    two.start()
    two.all[1].stop(failed="process 1 failed")
    two.all[0].stop()
    two.end()
    assert not two.said


def test_a_lost_store_ends_a_process():
    class Gone:
        def add(self, key, number):
            raise RuntimeError("Broken pipe\nmore")

    alone = Processes(Gone(), 1)
    alone.all[0].run()
    assert "the store of the launcher is gone (Broken pipe)" in alone.said[0]


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (RuntimeError("[gloo/transport/tcp/pair.cc] Connection closed by peer [127.0.0.1]"), True),
        (distributed.DistNetworkError("the socket has been closed"), True),
        (RuntimeError("NCCL error: remote process exited"), True),
        (RuntimeError("CUDA out of memory"), False),
        (torch.OutOfMemoryError("nccl"), False),
    ],
    ids=["gloo", "network", "nccl", "other", "memory"],
)
def test_which_errors_mean_that_another_process_is_gone(error, lost):
    assert is_lost_connection(error) is lost


class Two:
    num_processes, process_index = 2, 0


@pytest.fixture
def quick(store, monkeypatch):
    monkeypatch.setattr(watching, "open_store", lambda: store)
    monkeypatch.setattr(watching, "_ignore_launcher", lambda: None)
    return store


def test_a_lost_connection_becomes_an_error_that_says_how_to_go_on(quick):
    with (
        pytest.raises(RunError, match=r"another of the 2 processes .*gloo broke.*; resume"),
        watched(Two, lambda: "resume"),
    ):
        raise RuntimeError("gloo broke")
    assert quick.add("failed", 0) == 1  # and the others hear of it


def test_other_errors_stay_what_they_are_and_the_others_hear_of_them(quick):
    with pytest.raises(ValueError, match="mine"), watched(Two, lambda: ""):
        raise ValueError("mine")
    assert quick.get("message") == b"process 0 failed: ValueError: mine"


def test_what_all_processes_raise_together_is_told_to_nobody(quick):
    with pytest.raises(HealthError), watched(Two, lambda: ""):
        raise HealthError("not finite")
    assert quick.add("failed", 0) == 0 and quick.add("beat/0", 0) >= watching.DONE


def test_one_process_is_not_watched():
    class One:
        num_processes = 1

    before = threading.active_count()
    with watched(One, lambda: ""):
        assert threading.active_count() == before


def test_the_times_leave_room_within_a_minute():
    assert watching.BEAT * 2 + watching.SILENCE + watching.GRACE < 55
