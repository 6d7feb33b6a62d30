"""A pipeline in a worker's task: the same checkpoints, under the task's job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.jobs.context import Attempt, JobContext, attempt_of
from penstock.jobs.model.state import State
from penstock.jobs.worker.worker import Worker
from penstock.pipelines import Pipeline, PipelineFile, StepContext, lineage
from penstock.testing.clock import MovableClock


class World:
    """An app whose task is a pipeline of three steps, and a note of each call."""

    def __init__(self, folder: Path) -> None:
        self.clock = MovableClock()
        self.app = penstock.App(folder / "jobs.db", clock=self.clock)
        self.calls: list[str] = []
        self.stop_after = ""
        pipeline = Pipeline("poem", inputs=("text",))

        @pipeline.step(inputs=("text",), outputs=("words",))
        def split(context: StepContext, text: str) -> PipelineFile:
            self.called("split", context)
            return context.save("words.txt", "\n".join(text.split()).encode())

        @pipeline.step(inputs=("words",), outputs=("count",))
        def count(context: StepContext, words: PipelineFile) -> int:
            self.called("count", context)
            return len(words.read().split())

        @pipeline.step(inputs=("count",), outputs=("end",))
        def end(context: StepContext, count: int) -> int:
            self.called("end", context)
            return count

        @self.app.task(retries=2)
        def poem(ctx: penstock.JobContext, text: str) -> dict[str, Any]:
            report = pipeline.run_in(ctx, inputs={"text": text})
            return {"count": report["count"], "ran": list(report.ran)}

        self.task = poem
        self.pipeline = pipeline

    def called(self, step: str, context: StepContext) -> None:
        self.calls.append(step)
        if step == self.stop_after:
            self.stop_after = ""
            attempt_of(context._ctx).stop("its worker stops")

    def work(self) -> None:
        Worker(self.app, burst=True, concurrency=1, idle_seconds=0.05).run()


def test_a_task_may_be_a_pipeline(tmp_path: Path) -> None:
    world = World(tmp_path)
    with world.app as app:
        job = world.task.enqueue(text="so much depends")
        world.work()
        assert app.result(job.id) == {"count": 3, "ran": ["split", "count", "end"]}
        assert lineage(app.store, job.id)["words"].file is not None
        assert app.store.files is not None
        assert app.store.files.exists(f"{job.id}/split/words.txt")


def test_when_a_worker_dies_another_goes_on_at_the_first_step_that_is_not_done(tmp_path: Path) -> None:
    world = World(tmp_path)
    with world.app as app:
        job = world.task.enqueue(text="so much depends")
        # A worker that dies within the second step: its lease stays behind.
        claimed = app.store.claim(app.store.get(job.id), "dead:1:abc", 30)
        assert claimed is not None
        ctx = JobContext(Attempt(app.store, claimed))
        dying = Dying(world)
        with pytest.raises(Death):
            world.pipeline.run_in(ctx, inputs={"text": "so much depends"}, tell=dying.told)
        assert app.get(job.id).state is State.PROCESSING
        world.clock.advance(60)
        world.work()
        assert app.result(job.id) == {"count": 3, "ran": ["count", "end"]}
        assert app.get(job.id).attempt == 2
    assert world.calls == ["split", "count", "end"]


class Death(BaseException):
    """What ends a worker."""


class Dying:
    def __init__(self, world: World) -> None:
        self.world = world

    def told(self, report: Any) -> None:
        if (report.name, report.how) == ("count", "running"):
            raise Death


def test_a_job_carries_one_pipeline(tmp_path: Path) -> None:
    world = World(tmp_path)
    other = Pipeline("other")
    other.step(outputs=("count",), name="count")(lambda context: 1)
    with world.app as app:

        @app.task()
        def both(ctx: penstock.JobContext) -> None:
            world.pipeline.run_in(ctx, inputs={"text": "so much"})
            other.run_in(ctx)

        job = both.enqueue()
        world.work()
        error = app.get(job.id).error
    assert error is not None
    assert "the job carries the pipeline 'poem' already" in error.message


def test_a_worker_that_stops_hands_over_between_two_steps(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.stop_after = "split"
    with world.app as app:
        job = world.task.enqueue(text="so much depends")
        world.work()
        assert app.result(job.id)["ran"] == ["count", "end"]
        assert "handed_over" in [event.type for event in app.store.history(job.id).events]
    assert world.calls == ["split", "count", "end"]
