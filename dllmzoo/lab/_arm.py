"""One arm in one process: trained until it ends, whatever ends it."""

from __future__ import annotations

import shlex
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from dllmzoo.errors import DllmzooError, HealthError, Interrupted
from dllmzoo.lab.runs import Arm, Experiment, arm_overrides

GO_ON = "the same command goes on"
Ended = Literal["finished", "stopped", "failed", "interrupted"]


def train_arm(arm: Arm, folder: Path, asked: Callable[[], bool]) -> tuple[Ended, str]:
    """Train, or go on with, the run of an arm; returns how it ended and why.

    Args:
        arm: what to run.
        folder: of the experiment.
        asked: whether to stop; read after every round, which is then saved.
    """
    from dllmzoo.training.run import train

    changes = arm_overrides(arm, folder)
    command = shlex.join(["dllmzoo", "train", arm.recipe, *changes])
    if asked():
        return "interrupted", f"stopped before {arm.name}; {GO_ON}"
    try:
        with _alone(folder, arm.name, asked):
            rows: Any = train(arm.recipe, changes, resume="auto", command=command)
            for row in rows:
                if asked():
                    rows.close()  # saves
                    done = f"{arm.name} was stopped after round {row['round']} and saved"
                    return "interrupted", f"{done}; {GO_ON}"
    except HealthError as error:
        return "stopped", str(error)
    except Interrupted as error:
        return "interrupted", f"{arm.name}: {str(error).partition(';')[0]}; {GO_ON}"
    except DllmzooError as error:
        return "failed", str(error)
    except (Exception, SystemExit) as error:
        file = _write_traceback(folder, arm)
        return "failed", f"unexpected {type(error).__name__}: {error} (traceback in {file})"
    return "finished", ""


def _write_traceback(folder: Path, arm: Arm) -> Path:
    file = Experiment(folder).path / "errors" / f"{arm.name}.txt"
    file.parent.mkdir(exist_ok=True)
    file.write_text(traceback.format_exc(), encoding="utf-8")
    return file


@contextmanager
def _alone(folder: Path, name: str, asked: Callable[[], bool]) -> Iterator[None]:
    """Wait until no other process works on the run; one left over from a killed sweep may.

    Where the system has no file locks nothing is waited for.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    place = folder / "runs" / f".{name}.lock"
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if asked():
                    raise Interrupted("stopped while another process worked on it") from None
                time.sleep(0.2)
        yield
