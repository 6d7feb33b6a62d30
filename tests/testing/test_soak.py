"""The soak in its short form: all shapes of jobs, faults, kills and jumps, on a file and over HTTP."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from trust.ledger import Ledger
from trust.soak_producer import Producer

import penstock

ROOT = Path(__file__).parents[2]


@pytest.mark.crash
@pytest.mark.parametrize("over", ["file", "http"])
def test_a_short_soak_loses_doubles_and_reorders_nothing(over: str) -> None:
    options = ["--over", over, "--seconds", "1.5", "--seed", "3", "--workers", "1", "--rate", "20", "--jump", "1"]
    command = [sys.executable, "-m", "trust.soak", *options]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "seed 3" in ended.stdout
    assert "Nothing was lost, doubled or reordered." in ended.stdout


def test_workers_are_replaced_while_the_producer_waits_for_jobs_that_they_end(tmp_path: Path) -> None:
    app = penstock.App(":memory:")

    @app.task()
    def second_chance(ctx: penstock.JobContext, number: int, seconds: float) -> None:
        if ctx.attempt == 1:
            raise ValueError

    @app.task()
    def plain(number: int, seconds: float) -> None: ...

    @app.task()
    def hopeless(number: int, seconds: float) -> None: ...

    @app.task()
    def after_some(number: int, seconds: float) -> None: ...

    producer = Producer(app, Ledger(tmp_path / "ledger"), random.Random(3), rate=0.01, seconds=0, poisons=False)
    producer._chances()  # a job that fails, and is then retried: by nobody, without a worker
    producer.start()
    producer.finish(60.0, lambda: penstock.Worker(app, burst=True).run())
    (job,) = app.jobs.find(task="second_chance")
    assert producer.undone == []
    assert "retried" in [event.type for event in app.jobs.events(job.id)]
