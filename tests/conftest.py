"""What every test runs under: no network, one thread, deterministic kernels, two profiles."""

import os

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_DATASETS_OFFLINE="1")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import ipaddress
import socket

import hypothesis
import pytest
import torch

from dllmzoo import ZOO

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

hypothesis.settings.register_profile("dev", max_examples=25, deadline=None)
hypothesis.settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")


class NetworkError(RuntimeError):
    """A test tried to leave this machine."""


def _is_local(address: object) -> bool:
    """A Unix socket, or an address of the loopback interface."""
    if not isinstance(address, tuple):
        return True
    host = address[0]
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in ("", "localhost")


def _guard(name: str) -> None:
    original = getattr(socket.socket, name)

    def connect(self, address):
        if not _is_local(address):
            raise NetworkError(f"a test connects to {address}; tests use no network")
        return original(self, address)

    setattr(socket.socket, name, connect)


_guard("connect")
_guard("connect_ex")


@pytest.fixture(autouse=True)
def no_component_left_behind():
    """A test that registers a component forgets it: the laws run over what the registries hold."""
    before = {kind: registry.names() for kind, registry in ZOO.items()}
    yield
    assert {kind: registry.names() for kind, registry in ZOO.items()} == before


gpu_deselected = pytest.StashKey[int]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what needs a GPU where there is none, and remember how many."""
    if torch.cuda.is_available():
        return
    without = [item for item in items if item.get_closest_marker("gpu")]
    if without:
        items[:] = [item for item in items if item not in without]
        config.hook.pytest_deselected(items=without)
    config.stash[gpu_deselected] = len(without)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist tells the controller its count."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["gpu_deselected"] = session.config.stash.get(gpu_deselected, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    """The controller of xdist keeps the count of its workers, which all collect the same."""
    count = getattr(node, "workeroutput", {}).get("gpu_deselected", 0)
    node.config.stash[gpu_deselected] = count


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    """Say how many tests were left out for want of a device."""
    count = config.stash.get(gpu_deselected, 0)
    if count:
        terminalreporter.write_line(f"{count} gpu tests deselected: no CUDA device here")
