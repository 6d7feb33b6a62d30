"""A worker that kills itself: `python security_killed.py KIND FOLDER COUNTS [after|in STAGE]`.

It writes a line into COUNTS for each stage that is run, does the next job that it can get, and is killed after the
checkpoint of STAGE, or in the middle of it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from security_world import storage_of

from penstock.systems.security_assistant.jobs import stages
from penstock.systems.security_assistant.jobs.job import DrawingJob
from penstock.systems.security_assistant.jobs.processor import Processor

PATIENCE_SECONDS = 60.0


def main(kind: str, folder: str, counts: str, when: str = "", killed: str = "") -> None:
    stages.STAGES = tuple(
        count_text(stage, Path(counts), when == "in" and stage.name == killed) for stage in stages.STAGES
    )

    def watch(stage: str, job: DrawingJob) -> None:
        if when == "after" and stage == killed:
            os.kill(os.getpid(), signal.SIGKILL)

    with storage_of(kind, Path(folder)) as storage:
        processor = Processor(storage, lease_seconds=0.5, watch=watch)
        until = time.monotonic() + PATIENCE_SECONDS
        while processor.process_next() is None:  # the last worker's lease has to run out first
            assert time.monotonic() < until, "no job could be had"
            time.sleep(0.05)


def count_text(stage: stages.Stage, counts: Path, dies: bool) -> stages.Stage:
    def run(materials: stages.Materials) -> stages.Outcome:
        with counts.open("a") as lines:
            lines.write(f"{stage.name}\n")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return stage.run(materials)

    return replace(stage, run=run)


if __name__ == "__main__":
    main(*sys.argv[1:])
