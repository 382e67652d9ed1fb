"""Several runs in one set of processes, which torchrun starts: `-m tests.processes FILE`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1]
FSDP = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
"""What `accelerate launch` tells its processes for `distributed_type: FSDP, fsdp_version: 2`."""

ZERO = {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_ZERO_STAGE": "2"}
"""And for `distributed_type: DEEPSPEED, zero_stage: 2`."""


def port(number: int) -> int:
    """A port for the launch of this number; another one in each process of pytest."""
    return 29500 + (os.getpid() * 7 + number) % 2000


def torchrun(processes: int, number: int) -> list[str]:
    """The launcher's words before the module, for the launch of this number."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    return [*launch, "--master-port", str(port(number))]


def environment() -> dict[str, str]:
    """One thread a process, and no network."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROJECT)}


def train_all(folder: Path, processes: int, jobs: list[dict[str, Any]]) -> None:
    """Train recipe after recipe in one set of processes.

    Args:
        folder: for the list of jobs.
        processes: how many.
        jobs: `recipe`, and where wanted `resume` and `environment`.
    """
    file = folder / f"jobs-{processes}.json"
    file.write_text(json.dumps(jobs))
    process = subprocess.Popen(
        [*torchrun(processes, processes), "-m", "tests.processes", str(file)],
        env=environment(), cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == 0, output[-6000:]


def main() -> None:
    """What each process does."""
    import torch

    import dllmzoo

    for job in json.loads(Path(sys.argv[1]).read_text()):
        asked = job.get("environment", {})
        os.environ.update(asked)
        list(dllmzoo.train(job["recipe"], resume=job.get("resume")))
        for name in asked:
            del os.environ[name]
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
