"""What the jobs do, and where they leave traces of it: the same for every system, standard library only."""

from __future__ import annotations

import functools
import os
import struct
import time
from pathlib import Path

STEPS = 4
STEP_SECONDS = 1.0
STAMP = struct.Struct("d")

place = Path(os.environ.get("BENCH_JOBS_DIR", "."))
url = os.environ.get("BENCH_JOBS_URL", "")
concurrency = int(os.environ.get("BENCH_JOBS_CONCURRENCY", "8"))
# Where defaults suit no load of short jobs, the peer's file sets what its documentation advises; never for a crash.
tuned = os.environ.get("BENCH_JOBS_TUNED") == "1"
# Whether each commit is to wait for the disk, in the systems that are measured both ways.
synced = os.environ.get("BENCH_JOBS_SYNCED") == "1"


def no_op() -> None:
    """The short job: eight bytes at the end of a file say that it ran, and when."""
    os.write(_appending("ran"), STAMP.pack(time.monotonic()))


def step(number: int) -> int:
    """A second of the long job."""
    note(f"step {number}")
    time.sleep(STEP_SECONDS)
    return number


def all_steps() -> None:
    """The long job, for systems without checkpoints."""
    note("begin")
    for number in range(1, STEPS + 1):
        step(number)
    note("done")


def note(event: str) -> None:
    os.write(_appending("events"), f"{time.monotonic()} {event}\n".encode())


@functools.cache
def _appending(name: str) -> int:
    return os.open(place / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
