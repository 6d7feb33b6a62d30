"""A fan-out that kills its process at an item: `killed_map.py FOLDER ITEM…` runs one job, killed at each in turn."""

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
from penstock.pipelines import Pipeline, PipelineReport, StepContext
from penstock.testing.clock import MovableClock

ITEMS = 20

pipeline = Pipeline("fan")
FOLDER = Path()
KILL_AT = -1


def squared(number: int) -> int:
    with (FOLDER / "items.txt").open("a") as file:
        file.write(f"{number}\n")
    if number == KILL_AT:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


@pipeline.step(outputs=("squares",))
def square(context: StepContext) -> list[int]:
    return context.map(squared, range(ITEMS))


def run(folder: Path, kill_at: int, ahead: float) -> PipelineReport:
    global FOLDER, KILL_AT
    FOLDER, KILL_AT = folder, kill_at
    clock = MovableClock()
    clock.advance(ahead)
    with connect(folder / "fan.db") as db:
        store = JobStore(db, CollectionLayout("jobs", shards=2), files=open_files(folder / "files"), clock=clock)
        store.ensure_tables()
        return pipeline.run(store, job_id="fan")


if __name__ == "__main__":
    for number, item in enumerate(sys.argv[2:]):
        print(status_of(partial(run, Path(sys.argv[1]), int(item), 60.0 * number)), flush=True)
