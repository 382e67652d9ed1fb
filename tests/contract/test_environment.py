"""The conditions that tests/conftest.py promises hold."""

import os
import socket

import hypothesis
import pytest
import torch


@pytest.mark.parametrize("call", ["connect", "connect_ex"])
def test_no_test_reaches_another_machine(call):
    with socket.socket() as plug, pytest.raises(RuntimeError, match="tests use no network"):
        getattr(plug, call)(("192.0.2.1", 80))  # an address reserved for documentation


def test_a_test_may_talk_to_itself():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()


def test_the_hub_is_never_asked():
    assert os.environ["HF_HUB_OFFLINE"] == os.environ["TRANSFORMERS_OFFLINE"] == "1"


def test_numbers_do_not_depend_on_threads():
    assert torch.get_num_threads() == 1
    assert torch.are_deterministic_algorithms_enabled()


def test_examples_are_the_same_each_time_in_continuous_integration():
    assert hypothesis.settings().deadline is None
    assert hypothesis.settings().derandomize == bool(os.environ.get("CI"))


@pytest.mark.gpu
def test_a_gpu_test_runs_where_there_is_a_gpu():
    assert torch.cuda.is_available()
