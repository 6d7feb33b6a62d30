"""What is done is reused; what changed is done again, and the report says why (execution.py, 1 to 3)."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pipeline_samples import Sample, words_pipeline

from penstock.clock import ManualClock
from penstock.files import BadKey, Files, NoSpace, SavedFile
from penstock.files.content import Data
from penstock.jobs.app import App
from penstock.jobs.model.job import BadJob, JobCancelled, JobNotFound, NewJob
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore
from penstock.leases import LeaseLost
from penstock.pipelines import (
    BadPipeline,
    Pipeline,
    PipelineFile,
    PipelineHeld,
    PipelineReport,
    StepContext,
    lineage,
    outputs,
)

JOB = "words_1"
TEXT = {"text": "so much depends upon"}


def ran(sample: Sample, store: JobStore, **options: object) -> PipelineReport:
    return sample.pipeline.run(store, job_id=JOB, **options)  # type: ignore[arg-type]


def test_a_run_gives_its_outputs_and_reports_each_step(any_store: JobStore) -> None:
    report = ran(words_pipeline(), any_store, inputs=TEXT)
    assert report["longest"] == ["depends", "much"]
    assert report["total"] == 17
    assert report["words"].read() == b"so\nmuch\ndepends\nupon"
    assert report["words"].key == f"{JOB}/split/words.txt"
    assert report.ran == ("split", "measure", "choose")
    assert report.finished
    assert any_store.get(JOB).state is State.COMPLETED
    assert any_store.get(JOB).progress == 100
    messages = [entry.message for entry in any_store.entries(JOB)]
    assert "checkpoint step split" in messages
    assert "begins: not done yet" in messages


def test_a_job_that_is_done_is_reused_whole_and_nothing_is_written(any_store: JobStore) -> None:
    sample = words_pipeline()
    first = ran(sample, any_store, inputs=TEXT)
    before = any_store.get(JOB).version
    again = ran(sample, any_store)
    assert again.reused == ("split", "measure", "choose")
    assert again.outputs == first.outputs
    assert set(sample.calls.values()) == {1}
    assert any_store.get(JOB).version == before


def test_after_a_failure_the_next_run_goes_on_at_the_step_that_failed(any_store: JobStore) -> None:
    sample = words_pipeline()
    sample.fail_in = "measure"
    with pytest.raises(ValueError, match="measure cannot") as told:
        ran(sample, any_store, inputs=TEXT)
    assert "run the job words_1 again" in told.value.__notes__[0]
    job = any_store.get(JOB)
    assert job.state is State.FAILED
    assert job.error is not None
    assert job.error.kind == "ValueError"
    sample.fail_in = ""
    report = ran(sample, any_store)
    assert report.reused == ("split",)
    assert sample.calls == {"split": 1, "measure": 2, "choose": 1}
    assert any_store.get(JOB).state is State.COMPLETED


def test_a_changed_input_runs_the_steps_that_use_it(any_store: JobStore) -> None:
    sample = words_pipeline()
    ran(sample, any_store, inputs=TEXT)
    before = any_store.get(JOB).version
    report = ran(sample, any_store, inputs={"top": 1})
    assert report["longest"] == ["depends"]
    assert report.ran == ("choose",)
    assert report.steps[2].why == "top changed"
    # The completed job is as it was; its further round is a job of its own, and is what the next run finds.
    assert any_store.get(JOB).version == before
    assert any_store.get(f"{JOB}~2").state is State.COMPLETED
    assert ran(sample, any_store).reused == ("split", "measure", "choose")
    assert ran(sample, any_store, inputs={"top": 2}).ran == ("choose",)
    assert any_store.get(f"{JOB}~3").state is State.COMPLETED


def test_a_new_version_runs_again_and_later_steps_only_if_it_made_something_else(store: JobStore) -> None:
    ran(words_pipeline(), store, inputs=TEXT)
    same = ran(words_pipeline(split_version=2), store)
    assert same.ran == ("split",)
    assert same.steps[0].why == "its version is 2, and was 1"
    other = ran(words_pipeline(split_version=3, upper=True), store)
    assert other.ran == ("split", "measure", "choose")
    assert other.steps[1].why == "words changed"


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_a_step_whose_file_is_not_what_it_was_runs_again(store: JobStore, tmp_path: Path, damage: str) -> None:
    sample = words_pipeline()
    ran(sample, store, inputs=TEXT)
    file = tmp_path / "files" / JOB / "split" / "words.txt"
    file.write_bytes(b"so\nmuch\nXXXXXXX\nupon") if damage == "changed" else file.unlink()
    report = ran(sample, store)
    assert report.ran == ("split",)  # it made the same, so that the others need not run
    assert f"its file {JOB}/split/words.txt" in report.steps[0].why
    assert damage in report.steps[0].why
    assert report["words"].read() == b"so\nmuch\ndepends\nupon"


def test_a_lost_file_is_noticed_in_every_home(any_store: JobStore) -> None:
    sample = words_pipeline()
    ran(sample, any_store, inputs=TEXT)
    assert any_store.files is not None
    any_store.files.delete(f"{JOB}/split/words.txt")
    assert ran(sample, any_store).ran == ("split",)
    assert ran(sample, any_store).ran == ()


def test_a_file_that_was_not_declared_is_looked_at_too(store: JobStore, tmp_path: Path) -> None:
    pipeline = Pipeline("map")

    @pipeline.step(outputs=("count",))
    def draw(context: StepContext) -> int:
        context.save("map.svg", b"<svg/>")
        return 3

    pipeline.run(store, job_id=JOB)
    (tmp_path / "files" / JOB / "draw" / "map.svg").unlink()
    assert pipeline.run(store, job_id=JOB).ran == ("draw",)
    assert [origin.name for origin in lineage(store, JOB)] == ["count", "draw/map.svg"]


def test_a_value_too_long_for_an_item_lies_in_a_file_and_is_looked_at(store: JobStore, tmp_path: Path) -> None:
    pipeline = Pipeline("long")

    @pipeline.step(outputs=("text",))
    def write(context: StepContext) -> str:
        return "long " * 100_000

    @pipeline.step(inputs=("text",), outputs=("size",))
    def measure(context: StepContext, text: str) -> int:
        return len(text)

    assert pipeline.run(store, job_id=JOB)["size"] == 500_000
    assert pipeline.run(store, job_id=JOB).ran == ()
    (spilled,) = (tmp_path / "files" / JOB / "payloads").iterdir()
    spilled.unlink()
    report = pipeline.run(store, job_id=JOB)
    assert report.ran == ("write",)
    assert "lay in a file" in report.steps[0].why


def test_what_a_step_is_given_is_the_same_in_a_resumed_run(store: JobStore) -> None:
    pipeline = Pipeline("kinds")
    seen: list[object] = []

    @pipeline.step(outputs=("pair",))
    def make(context: StepContext) -> object:
        return {"b": (1, 2.0), "a": None}

    @pipeline.step(inputs=("pair",), outputs=("count",))
    def use(context: StepContext, pair: dict[str, object]) -> int:
        seen.append(dict(pair))
        pair.clear()  # its own copy
        return len(seen)

    @pipeline.step(inputs=("pair", "count"), outputs=("end",))
    def use_again(context: StepContext, pair: dict[str, object], count: int) -> list[str]:
        if count == 1:
            seen.append(dict(pair))
        return list(pair)

    assert pipeline.run(store, job_id=JOB)["end"] == ["b", "a"]
    assert seen == [{"b": [1, 2.0], "a": None}] * 2


def test_two_runs_of_one_job_are_never_under_way_at_once(any_store: JobStore, clock: ManualClock) -> None:
    """The second is refused with the first one's name; when that is dead, it takes over, and the first is fenced."""
    sample = words_pipeline()
    held: list[PipelineHeld] = []
    pipeline = sample.pipeline

    @pipeline.step(inputs=("total",), outputs=("seen",))
    def meet(context: StepContext, total: int) -> int:
        with pytest.raises(PipelineHeld) as told:
            pipeline.run(any_store, job_id=JOB)
        held.append(told.value)
        return total

    assert ran(sample, any_store, inputs=TEXT).finished
    assert str(os.getpid()) in held[0].held_by
    assert "wait_seconds" in str(held[0])
    assert set(sample.calls.values()) == {1}


def test_a_dead_runs_job_is_taken_over_when_its_lease_is_over(store: JobStore, clock: ManualClock) -> None:
    sample = words_pipeline()
    job, _ = store.create(new_job(sample))
    assert store.claim(job, "dead:1:abc", 30) is not None
    with pytest.raises(PipelineHeld, match="dead:1:abc"):
        ran(sample, store, inputs=TEXT)
    clock.advance(33)
    assert ran(sample, store, inputs=TEXT).finished
    assert store.get(JOB).attempt == 2


def test_a_run_whose_job_was_taken_over_writes_nothing_over_what_the_other_made(
    store: JobStore, clock: ManualClock
) -> None:
    """It was frozen, and wakes up after another run has ended the job (values.py, 4)."""
    pipeline = Pipeline("frozen")
    runs: list[PipelineReport] = []

    @pipeline.step(outputs=("who",))
    def write(context: StepContext) -> PipelineFile:
        if context.attempt == 1:
            clock.advance(33)
            runs.append(pipeline.run(store, job_id=JOB))
        return context.save("who.txt", f"attempt {context.attempt}".encode())

    with pytest.raises(LeaseLost):
        pipeline.run(store, job_id=JOB)
    assert runs[0]["who"].read() == b"attempt 2"
    assert runs[0]["who"].key == f"{JOB}/write/who~2.txt"
    assert pipeline.run(store, job_id=JOB).ran == ()
    assert lineage(store, JOB)["who"].attempt == 2


def test_two_runs_at_once_of_which_one_waits_do_each_step_once(tmp_path: Path) -> None:
    sample = words_pipeline()
    with App(tmp_path / "jobs.db") as app, ThreadPoolExecutor(3) as threads:
        store = app.store
        runs = [threads.submit(ran, sample, store, inputs=TEXT, wait_seconds=100) for _ in range(3)]
        reports = [one.result(timeout=100) for one in runs]
    assert all(report["total"] == 17 for report in reports)
    assert sorted(len(report.ran) for report in reports) == [0, 0, 3]
    assert set(sample.calls.values()) == {1}


def test_a_name_as_of_a_later_attempt_is_refused(store: JobStore) -> None:
    pipeline = Pipeline("names")
    pipeline.step(outputs=("out",), name="write")(lambda context: context.save("a~2.txt", b""))
    with pytest.raises(BadKey, match="later attempts"):
        pipeline.run(store, job_id=JOB)


def test_a_job_that_killed_its_workers_runs_again_when_it_is_asked_for(store: JobStore, clock: ManualClock) -> None:
    sample = words_pipeline()
    store.create(new_job(sample))
    for _ in range(3):
        assert store.claim(store.get(JOB), "dead:1:abc", 30) is not None
        clock.advance(33)
    assert ran(sample, store, inputs=TEXT).finished


def new_job(sample: Sample) -> NewJob:
    return NewJob(sample.pipeline.name, {"job_id": JOB}, queue="pipelines", id=JOB)


def test_a_cancelled_job_stops_before_its_next_step_and_is_not_run_again(store: JobStore) -> None:
    pipeline = Pipeline("stops")
    calls: list[str] = []

    @pipeline.step(outputs=("one",))
    def first(context: StepContext) -> int:
        store.cancel(JOB, "not needed")
        return 1

    @pipeline.step(inputs=("one",), outputs=("two",))
    def second(context: StepContext, one: int) -> int:
        calls.append("second")
        return 2

    for _ in range(2):
        with pytest.raises(JobCancelled, match="not needed"):
            pipeline.run(store, job_id=JOB)
    assert store.get(JOB).state is State.CANCELLED
    assert calls == []


def test_ctrl_c_hands_the_job_over_and_the_next_run_goes_on(store: JobStore) -> None:
    sample = words_pipeline()
    pipeline = sample.pipeline
    presses = [KeyboardInterrupt()]

    @pipeline.step(inputs=("total",), outputs=("end",))
    def last(context: StepContext, total: int) -> int:
        if presses:
            raise presses.pop()
        return total

    with pytest.raises(KeyboardInterrupt):
        ran(sample, store, inputs=TEXT)
    assert store.get(JOB).state is State.QUEUED
    assert ran(sample, store).ran == ("last",)
    assert set(sample.calls.values()) == {1}


def test_a_run_stops_between_two_steps_before_its_time_limit(store: JobStore) -> None:
    sample = words_pipeline()
    stopped = ran(sample, store, inputs=TEXT, time_limit_seconds=3600, soft_time_limit_seconds=0.000001)
    assert not stopped.finished
    assert "time limit" in stopped.stopped
    assert {step.how for step in stopped.steps} == {"waiting"}
    assert "Run it again to continue" in str(stopped)
    assert store.get(JOB).state is State.QUEUED
    assert ran(sample, store).finished


def test_a_full_disk_fails_the_step_and_leaves_nothing(store: JobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = words_pipeline()

    def full(home: Files, key: str, data: Data, **options: object) -> SavedFile:
        raise NoSpace(key, "it cannot be written: no space left on device", "Make room")

    with monkeypatch.context() as patch:
        patch.setattr(type(store.files), "save", full)
        with pytest.raises(NoSpace):
            ran(sample, store, inputs=TEXT)
    assert store.get(JOB).state is State.FAILED
    assert ran(sample, store).finished


def test_a_file_given_as_a_path_becomes_the_jobs_own(store: JobStore, tmp_path: Path) -> None:
    pipeline = Pipeline("paths", inputs=("text",))
    read: list[bytes] = []

    @pipeline.step(inputs=("text",), outputs=("size",))
    def measure(context: StepContext, text: PipelineFile) -> int:
        read.append(text.read())
        return text.size

    path = tmp_path / "größe.csv"
    path.write_bytes(b"12345")
    assert pipeline.run(store, job_id=JOB, inputs={"text": path})["size"] == 5
    path.rename(tmp_path / "other.csv")  # the same bytes under another name
    assert pipeline.run(store, job_id=JOB, inputs={"text": tmp_path / "other.csv"}).ran == ()
    assert pipeline.run(store, job_id=JOB).ran == ()  # and it is not needed any more
    (tmp_path / "other.csv").write_bytes(b"1234567")
    assert pipeline.run(store, job_id=JOB, inputs={"text": tmp_path / "other.csv"})["size"] == 7
    assert read == [b"12345", b"1234567"]
    assert store.files is not None
    assert store.files.exists(f"{JOB}/inputs/text.csv")
    with pytest.raises(BadPipeline, match="no such file"):
        pipeline.run(store, job_id=JOB, inputs={"text": tmp_path / "none.csv"})


def test_a_new_default_takes_the_place_of_one_that_was_not_given(store: JobStore) -> None:
    sample = words_pipeline()
    ran(sample, store, inputs=TEXT)
    sample.pipeline.parameters["top"] = 1
    assert ran(sample, store)["longest"] == ["depends"]
    ran(sample, store, inputs={"top": 3})
    sample.pipeline.parameters["top"] = 2
    assert ran(sample, store).ran == ()  # it was given, and stays


def test_the_lineage_tells_what_came_from_what(any_store: JobStore) -> None:
    sample = words_pipeline()
    report = ran(sample, any_store, inputs=TEXT)
    found = lineage(any_store, JOB)
    assert [origin.name for origin in found] == ["text", "top", "words", "lengths", "longest", "total"]
    words = found["words"]
    assert (words.step, words.version, words.attempt) == ("split", 1, 1)
    assert words.file == report["words"].saved
    assert words.inputs == {"text": found["text"].sha256}
    assert words.at.endswith("Z")
    assert {origin.name for origin in found.sources("longest")} == {"lengths", "top", "words", "text"}
    assert "split v1 from text" in str(found)
    assert found["total"].form()["key"] is None
    ran(sample, any_store, inputs={"top": 1})
    assert lineage(any_store, JOB)["longest"].inputs["top"] != found["longest"].inputs["top"]


def test_what_a_job_has_made_is_read_by_its_id(any_store: JobStore) -> None:
    sample = words_pipeline()
    sample.fail_in = "choose"
    with pytest.raises(ValueError, match="choose"):
        ran(sample, any_store, inputs=TEXT)
    assert set(outputs(any_store, JOB)) == {"words", "lengths"}  # so far
    sample.fail_in = ""
    report = ran(sample, any_store)
    assert outputs(any_store, JOB) == report.outputs
    newer = ran(sample, any_store, inputs={"top": 1})
    assert outputs(any_store, JOB) == newer.outputs
    with pytest.raises(JobNotFound):
        outputs(any_store, "words_2")


def test_each_step_is_told_of_once(store: JobStore) -> None:
    sample = words_pipeline()
    told: list[tuple[str, str]] = []
    for top in (1, 1, 2):
        told.clear()
        ran(sample, store, inputs={**TEXT, "top": top}, tell=lambda report: told.append((report.name, report.how)))
    assert told == [("split", "reused"), ("measure", "reused"), ("choose", "running"), ("choose", "ran")]


def test_a_step_may_say_what_it_made(store: JobStore) -> None:
    pipeline = Pipeline("said")

    @pipeline.step(outputs=("components",))
    def count(context: StepContext) -> int:
        context.summary = "45 components"
        return 45

    assert "not done yet; 45 components" in str(pipeline.run(store, job_id=JOB))
    (point,) = [one for one in store.history(JOB).checkpoints if one.name == "step count"]
    assert point.summary == "45 components"


def test_the_lineage_shows_what_was_made_from_something_older(store: JobStore) -> None:
    sample = words_pipeline()
    ran(sample, store, inputs=TEXT)
    sample.fail_in = "measure"
    with pytest.raises(ValueError, match="measure"):
        ran(sample, store, inputs={"text": "another"})
    found = lineage(store, JOB)
    assert found.is_current("words")
    assert not found.is_current("lengths")
    assert "(as it was before)" in str(found)
    with pytest.raises(JobNotFound):
        lineage(store, "words_2")


@pytest.mark.parametrize("percent", [140, -1, float("nan"), "50"])
def test_a_steps_progress_is_a_number_from_0_to_100(store: JobStore, percent: float) -> None:
    pipeline = Pipeline("words")

    @pipeline.step(inputs=(), outputs=("count",))
    def count(context: StepContext) -> int:
        context.progress(percent)
        return 1

    with pytest.raises(BadJob, match="progress is a number from 0 to 100"):
        pipeline.run(store, job_id=JOB)
