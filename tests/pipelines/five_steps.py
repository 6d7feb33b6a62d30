"""A pipeline of five steps that kills its own process where it is told.

`five_steps.py FOLDER MOMENT` runs one job five times, killed at each step in turn, and prints how each run ended and
what had run by then. MOMENT is `in` (the step's outputs saved, its checkpoint not) or `after`.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

from forked import status_of

from penstock.client.database import connect
from penstock.files import open_files
from penstock.jobs.layouts.item_collection import CollectionLayout
from penstock.jobs.store.store import JobStore
from penstock.pipelines import Pipeline, PipelineFile, PipelineReport, StepContext, StepReport
from penstock.testing.clock import MovableClock

JOB = "five"
LEASE_IS_OVER = 60.0
STEPS = ("read", "split", "measure", "draw", "publish")

pipeline = Pipeline("five", inputs=("text",))
FOLDER = Path()
WHERE = ""


def ran(step: str) -> None:
    """Notes that the step has done its work, on the disk; and dies there if it should."""
    with (FOLDER / "counts.txt").open("a") as file:
        file.write(f"{step}\n")
        os.fsync(file.fileno())
    if f"in {step}" == WHERE:
        os.kill(os.getpid(), signal.SIGKILL)


@pipeline.step(inputs=("text",), outputs=("lines",))
def read(context: StepContext, text: str) -> list[str]:
    ran("read")
    return text.split(".")


@pipeline.step(inputs=("lines",), outputs=("words",))
def split(context: StepContext, lines: list[str]) -> PipelineFile:
    file = context.save("words.txt", "\n".join(word for line in lines for word in line.split()).encode())
    ran("split")
    return file


@pipeline.step(inputs=("words",), outputs=("lengths", "total"))
def measure(context: StepContext, words: PipelineFile) -> dict[str, object]:
    lengths = [len(word) for word in words.read().decode().split()]
    ran("measure")
    return {"lengths": lengths, "total": sum(lengths)}


@pipeline.step(inputs=("words", "lengths"), outputs=("picture", "bars"))
def draw(context: StepContext, words: PipelineFile, lengths: list[int]) -> dict[str, object]:
    file = context.save("bars.txt", "\n".join("#" * length for length in lengths).encode())
    ran("draw")
    return {"picture": file, "bars": len(lengths)}


@pipeline.step(inputs=("picture", "total"))
def publish(context: StepContext, picture: PipelineFile, total: int) -> None:
    context.log(f"{picture.size} bytes, {total}")
    ran("publish")


def told(report: StepReport) -> None:
    if report.how == "ran" and f"after {report.name}" == WHERE:
        os.kill(os.getpid(), signal.SIGKILL)


def run(folder: Path, where: str, ahead: float) -> PipelineReport:
    """`ahead`: by how many seconds its clock is ahead, so that the lease of the run before is over."""
    global FOLDER, WHERE
    FOLDER, WHERE = folder, where
    clock = MovableClock()
    clock.advance(ahead)
    with connect(folder / "five.db") as db:
        store = JobStore(db, CollectionLayout("jobs", shards=2), files=open_files(folder / "files"), clock=clock)
        store.ensure_tables()
        return pipeline.run(store, job_id=JOB, inputs={"text": "so much. depends upon"}, tell=told)


if __name__ == "__main__":
    folder, moment = Path(sys.argv[1]), sys.argv[2]
    for number, step in enumerate(STEPS):
        status = status_of(partial(run, folder, f"{moment} {step}", number * LEASE_IS_OVER))
        print(status, *(folder / "counts.txt").read_text().split(), flush=True)
