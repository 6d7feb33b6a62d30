"""Checkpoints: what was done is not done again, whatever happens to the worker; and what was changed is."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from security_world import clock_at, made, storage_of

from penstock.clock import ManualClock
from penstock.errors import PenstockError
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import MOST_CRASHES
from penstock.leases import LeaseLost
from penstock.systems.security_assistant.drawing.agents import Agents, Answer, default_agents, load_agents
from penstock.systems.security_assistant.drawing.components import Components
from penstock.systems.security_assistant.drawing.context import Context
from penstock.systems.security_assistant.drawing.pdf import Drawing
from penstock.systems.security_assistant.jobs import transitions
from penstock.systems.security_assistant.jobs.job import DrawingJob
from penstock.systems.security_assistant.jobs.processor import Processor
from penstock.systems.security_assistant.jobs.stages import STAGES, stages_of
from penstock.systems.security_assistant.jobs.storage import Storage

HERE = Path(__file__).parent
CONTEXT = {"context_name": "notes.txt", "context": b"Standard: EN 60839\nEvery reader shall be flush.\n"}
NAMES = [stage.name for stage in STAGES]


@pytest.fixture
def clock() -> ManualClock:
    return clock_at()


@pytest.fixture(params=["local", "safe"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Storage]:
    with storage_of(request.param, tmp_path, clock) as storage:
        yield storage


def worker(kind: str, folder: Path, *words: str) -> int:
    command = [sys.executable, str(HERE / "security_killed.py"), kind, str(folder), str(folder / "counts"), *words]
    return subprocess.run(command, timeout=120, check=False).returncode


@pytest.mark.crash
@pytest.mark.parametrize("kind", ["local", "safe"])
def test_S2_4_a_job_whose_worker_is_killed_after_each_stage_goes_on_there(kind: str, tmp_path: Path) -> None:
    with storage_of(kind, tmp_path) as storage:
        job = made(storage, **CONTEXT)
        for stage in NAMES:
            assert worker(kind, tmp_path, "after", stage) == -signal.SIGKILL
            assert storage.job(job.id).state is State.PROCESSING
        assert worker(kind, tmp_path) == 0
        done = storage.job(job.id)
    assert (done.state, done.error, done.attempt) == (State.COMPLETED, None, len(NAMES) + 1)
    assert (tmp_path / "counts").read_text().split() == NAMES, "every stage was run once, and none again"
    assert {point.version for point in done.checkpoints.values()} == {1}


@pytest.mark.crash
def test_S2_4_a_stage_whose_worker_is_killed_in_it_is_done_again_under_a_new_name(tmp_path: Path) -> None:
    with storage_of("safe", tmp_path) as storage:
        job = made(storage)
        assert worker("safe", tmp_path, "in", "components") == -signal.SIGKILL
        assert worker("safe", tmp_path) == 0
        done = storage.job(job.id)
        assert (tmp_path / "counts").read_text().split() == ["pdf", "components", "components", "excel", "evaluation"]
        assert done.checkpoints["components_extracted"].data_key.endswith("/checkpoint_components_v2.json")
        assert done.checkpoints["components_extracted"].version == 2


def test_S2_4_checkpoints_have_timestamp_data_key_version_and_summary(storage: Storage) -> None:
    done = Processor(storage).process(made(storage, **CONTEXT))
    assert done is not None
    assert list(done.checkpoints) == [stage.checkpoint for stage in STAGES]
    for name, point in done.checkpoints.items():
        form = done.item()["checkpoints"][name]
        assert {"timestamp", "data_key", "version", "summary"} <= set(form)
        assert storage.files.info(point.data_key).sha256 == point.sha256
    assert done.item()["checkpoints"]["components_extracted"]["summary"]["total_components"] > 0


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_S2_4_a_checkpoint_whose_file_is_not_what_it_was_is_made_anew(storage: Storage, damage: str) -> None:
    job = made(storage)
    halted = Halting(storage, after="components").process(job)
    assert halted is not None and halted.state is State.QUEUED
    key = halted.checkpoints["components_extracted"].data_key
    if damage == "changed":
        storage.save(key, b'{"legend": {}, "stated": {}, "components": []}')
    else:
        storage.delete(key)
    done = Processor(storage).process(halted)
    assert done is not None and done.state is State.COMPLETED
    assert done.stage_versions == {"pdf": 1, "components": 2, "excel": 1, "evaluation": 1}
    assert done.checkpoints["components_extracted"].data_key != key
    told = [event.details["message"] for event in storage.events(job.id) if event.type == "error_occurred"]
    assert len(told) == 1 and told[0].startswith("The stage components is done again: ")


def test_S2_4_a_stage_that_is_done_again_takes_those_after_it_along(storage: Storage) -> None:
    halted = Halting(storage, after="excel").process(made(storage))
    assert halted is not None
    storage.delete(halted.checkpoints["pdf_processed"].data_key)
    done = Processor(storage).process(halted)
    assert done is not None
    assert done.stage_versions == {"pdf": 2, "components": 2, "excel": 2, "evaluation": 1}
    assert done.output_files["excel"].endswith("/schedule_v2.xlsx")


def test_S2_4_the_file_is_there_before_the_checkpoint_that_points_to_it(storage: Storage) -> None:
    seen: list[str] = []
    replace_job = storage.store.replace

    def watching(job: DrawingJob, events: Any = ()) -> None:
        for point in job.checkpoints.values():
            assert storage.exists(point.data_key)
        seen.extend(job.output_files.values())
        for key in job.output_files.values():
            assert storage.exists(key)
        replace_job(job, events)

    storage.store.replace = watching  # type: ignore[method-assign]
    done = Processor(storage).process(made(storage))
    assert done is not None and done.state is State.COMPLETED and seen


def test_S2_4_a_worker_that_was_frozen_writes_nothing_over_its_successor(storage: Storage, clock: ManualClock) -> None:
    job = made(storage)
    frozen = Processor(storage, owner="frozen").claim(job)
    assert frozen is not None
    clock.advance(60)
    done = Processor(storage, owner="next").process(storage.job(job.id))
    assert done is not None and done.state is State.COMPLETED and done.attempt == 2
    with pytest.raises(LeaseLost):
        Processor(storage, owner="frozen").run(frozen)
    assert storage.job(job.id) == done


def test_S2_4_versions_are_given_out_once_however_many_ask(storage: Storage, clock: ManualClock) -> None:
    claimed = Processor(storage).claim(made(storage))
    assert claimed is not None
    numbers: list[int] = []

    def begin() -> None:
        for _ in range(5):
            job = storage.change_held(
                claimed, lambda job: transitions.stage_started(job, "pdf", frozenset(), clock.now())
            )
            numbers.append(job.stage_versions["pdf"])

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(1, 21))


def test_S2_4_a_stage_that_kills_its_workers_fails_its_job(storage: Storage, clock: ManualClock) -> None:
    job = made(storage)
    for _ in range(MOST_CRASHES):
        assert Processor(storage).claim(storage.job(job.id)) is not None
        clock.advance(60)
    assert Processor(storage).claim(storage.job(job.id)) is None
    parked = storage.job(job.id)
    assert parked.state is State.FAILED and parked.error is not None and "lost 3 workers" in parked.error["message"]
    ready = storage.change(parked, lambda job: transitions.retried(job, clock.now()))
    assert ready.expires_at is None
    done = Processor(storage).process(ready)
    assert done is not None and done.state is State.COMPLETED


class Halting(Processor):
    """Hands over after a stage, as if its time were up."""

    def __init__(self, storage: Storage, after: str) -> None:
        self.halted = False

        def watch(stage: str, job: DrawingJob) -> None:
            self.halted = self.halted or stage == after

        super().__init__(storage, watch=watch, stopping=lambda: self.halted)


@dataclass
class Slow:
    """Agents that take 100 seconds each, of the clock's time, and use tokens."""

    clock: ManualClock

    def agents(self) -> Agents:
        plain, slow = default_agents(), self

        class Context_:
            name = "context"

            def context(self, text: str) -> Answer[Context]:
                slow.clock.advance(100)
                return replace(plain.context.context(text), tokens=2_500)

        class Schedule:
            name = "schedule"

            def components(self, drawing: Drawing, pdf: bytes, context: Context | None) -> Answer[Components]:
                assert context is not None and context.facts == {"Standard": "EN 60839"} and pdf.startswith(b"%PDF")
                slow.clock.advance(100)
                return replace(plain.schedule.components(drawing, pdf, context), tokens=45_000)

        return replace(plain, context=Context_(), schedule=Schedule())


def test_S2_16_the_stages_are_pdf_context_components_excel_evaluation(storage: Storage) -> None:
    assert NAMES == ["pdf", "context", "components", "excel", "evaluation"]
    without = made(storage)
    assert [stage.name for stage in stages_of(without)] == ["pdf", "components", "excel", "evaluation"]
    assert [stage.name for stage in stages_of(made(storage, **CONTEXT))] == NAMES


def test_S2_16_a_job_whose_time_is_up_stops_at_a_checkpoint_and_another_worker_goes_on(
    storage: Storage, clock: ManualClock
) -> None:
    job = made(storage, **CONTEXT)
    agents = Slow(clock).agents()
    first = Processor(storage, agents, owner="first", time_limit_seconds=120, safety_margin_seconds=30)
    halted = first.process(job)
    assert halted is not None and (halted.state, halted.lease) == (State.QUEUED, None)
    assert list(halted.checkpoints) == ["pdf_processed", "context_extracted"]
    second = Processor(storage, agents, owner="second", time_limit_seconds=120, safety_margin_seconds=30)
    halted = second.process(storage.job(job.id))
    assert halted is not None and halted.state is State.QUEUED and "components_extracted" in halted.checkpoints
    done = Processor(storage, agents, owner="third").process(storage.job(job.id))
    assert done is not None and (done.state, done.attempt) == (State.COMPLETED, 3)
    assert set(done.stage_versions.values()) == {1}, "nothing was done twice"
    assert done.metadata["processing_time_seconds"] == 200


def test_S2_16_however_short_the_time_each_worker_does_a_stage(storage: Storage) -> None:
    job = made(storage)
    for stage in stages_of(job)[:-1]:
        halted = Processor(storage, time_limit_seconds=0, safety_margin_seconds=0).process(storage.job(job.id))
        assert halted is not None and halted.state is State.QUEUED and stage.checkpoint in halted.checkpoints
    done = Processor(storage, time_limit_seconds=0, safety_margin_seconds=0).process(storage.job(job.id))
    assert done is not None and done.state is State.COMPLETED and set(done.stage_versions.values()) == {1}


def test_S2_16_tokens_are_counted_by_agent(storage: Storage, clock: ManualClock) -> None:
    done = Processor(storage, Slow(clock).agents()).process(made(storage, **CONTEXT))
    assert done is not None
    assert done.metadata["token_usage"] == {
        "total": 47_500,
        "by_agent": {"context": 2_500, "schedule": 45_000, "codegen": 0, "judge": 0},
    }


class Unreachable(PenstockError):
    retryable = True


def failing(error: Exception) -> Agents:
    class Failing:
        name = "schedule"

        def components(self, drawing: Drawing, pdf: bytes, context: Context | None) -> Answer[Components]:
            raise error

    return replace(default_agents(), schedule=Failing())


def test_S2_16_an_agent_that_fails_fails_its_job_with_the_reason(storage: Storage) -> None:
    failed = Processor(storage, failing(RuntimeError("no model"))).process(made(storage))
    assert failed is not None and failed.state is State.FAILED
    assert failed.error == {"kind": "RuntimeError", "message": "no model", "stage": "components"}
    assert failed.item()["ttl"] > 0


def test_S2_16_what_may_pass_is_tried_again_later(storage: Storage, clock: ManualClock) -> None:
    job = made(storage)
    processor = Processor(storage, failing(Unreachable("busy")))
    for attempt in range(3):
        waiting = processor.process(storage.job(job.id))
        assert waiting is not None and waiting.state is State.QUEUED and waiting.lifecycle.failures == attempt + 1
        assert processor.process_next() is None, "it is not due yet"
        clock.advance(2.0**attempt)
    failed = processor.process(storage.job(job.id))
    assert failed is not None and failed.state is State.FAILED and failed.stage_versions["pdf"] == 1


def test_S2_16_other_agents_are_loaded_by_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("security_plugin_of_a_test.py").write_text(
        "from penstock.systems.security_assistant.drawing.agents import default_agents\n"
        "make = default_agents\nwrong = dict\n"
    )
    assert isinstance(load_agents("security_plugin_of_a_test:make"), Agents)
    for place, reason in (
        ("security_plugin_of_a_test", "MODULE:FUNCTION"),
        ("security_plugin_of_a_test:none", "has no function named none"),
        ("no_such_module_at_all:make", "There is no module no_such_module_at_all"),
        ("security_plugin_of_a_test:wrong", "gives dict"),
    ):
        with pytest.raises(PenstockError, match=reason):
            load_agents(place)


def test_S2_16_evaluation_is_a_file_for_people(storage: Storage) -> None:
    done = Processor(storage).process(made(storage))
    assert done is not None
    form = orjson.loads(storage.get(done.output_files["evaluation"]))
    assert (form["score"], form["passed"], form["findings"]) == (100, True, [])


def test_S2_4_a_lease_is_renewed_while_a_stage_runs(tmp_path: Path) -> None:
    """By the machine's clock: the stage goes on until its lease has moved."""
    with storage_of("safe", tmp_path) as storage:
        job, plain = made(storage), default_agents()

        class Patient:
            name = "schedule"

            def components(self, drawing: Drawing, pdf: bytes, context: Context | None) -> Answer[Components]:
                began = time.monotonic()
                first = storage.job(job.id).lease
                while (lease := storage.job(job.id).lease) == first:
                    assert time.monotonic() - began < 60
                    time.sleep(0.02)
                assert first is not None and lease is not None and lease.until > first.until
                return plain.schedule.components(drawing, pdf, context)

        done = Processor(storage, replace(plain, schedule=Patient()), lease_seconds=0.9).process(job)
        assert done is not None and (done.state, done.attempt) == (State.COMPLETED, 1), done.error
