"""An attempt at a copy, in the foreground (jobs/copies/debugger.py cites by number)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.client.database import connect
from penstock.errors import PenstockError
from penstock.files import open_files
from penstock.jobs.app import App
from penstock.jobs.copies.debugger import DebugAttempt
from penstock.jobs.copies.transfer import pull
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker.worker import Worker

BROKEN = {"it": True}
DONE: list[str] = []


def make_app(place: Any) -> App:
    app = App(place)

    @app.task()
    def prices() -> dict[str, int]:
        return {"box": 12}

    @app.task(time_limit_seconds=60)
    def ship(ctx: penstock.JobContext, order: str, token: str = "") -> dict[str, Any]:
        def pack() -> str:
            if BROKEN["it"]:
                raise LookupError(f"no box for {order}")
            return "packed"

        ctx.step("charge", lambda: DONE.append("charge"))
        ctx.step("reserve", lambda: DONE.append("reserve"))
        ctx.step("pack", pack)
        prices.enqueue()
        ctx.files.save("slip.txt", b"slip")
        return {"token": token, "results": list(ctx.results.values())}

    @app.task()
    async def ship_async(ctx: penstock.AsyncJobContext, order: str) -> str:
        async def charge() -> str:
            DONE.append("charge")
            return order

        return await ctx.step("charge", charge)

    @app.task()
    def typed(ctx: penstock.JobContext) -> int:
        return len(5)  # type: ignore[arg-type]

    @app.task()
    def bill(ctx: penstock.JobContext, price: Decimal) -> Decimal:
        fee = ctx.step("fee", lambda: Decimal("0.50"), type=Decimal)
        ctx.sleep(0.01)
        if BROKEN["it"]:
            raise LookupError("no paper")
        return price + fee

    @app.task(retries=2)
    def flaky() -> None:
        raise LookupError("not today")

    @app.task()
    def interrupted(ctx: penstock.JobContext) -> None:
        ctx.checkpoint("half", 1)
        raise KeyboardInterrupt

    @app.task()
    def later(ctx: penstock.JobContext) -> None:
        ctx.requeue("not now")

    return app


@pytest.fixture(autouse=True)
def _anew() -> None:
    BROKEN["it"] = True
    DONE.clear()


@pytest.fixture
def production(tmp_path: Path) -> Iterator[App]:
    with make_app(str(tmp_path / "production.db")) as app:
        yield app


@pytest.fixture
def local(tmp_path: Path) -> Iterator[App]:
    """The same program, on the file that jobs are pulled into."""
    app = make_app("http://127.0.0.1:1")  # nobody listens there
    with connect(tmp_path / "debug.db") as db:
        app.replace_database(db, open_files(tmp_path / "debug.db.files"))
        yield app


def pulled(production: App, local: App, job_id: str, **options: Any) -> None:
    pull(production.store, local.store, job_id, **options)


def work(app: App) -> None:
    Worker(app, concurrency=1, burst=True).run()


def failed(production: App) -> str:
    parent = production.tasks["prices"].enqueue()
    job = production.tasks["ship"].options(depends_on=[parent.id]).enqueue(order="o-17", token="hunter2")
    store = production.store
    work(production)
    assert store.get(job.id).failures == 1
    DONE.clear()
    return job.id


def test_the_next_attempt_reuses_finished_steps_and_its_parents_results(production: App, local: App) -> None:  # (2)
    job_id = failed(production)
    pulled(production, local, job_id)
    BROKEN["it"] = False
    outcome = DebugAttempt(local, job_id).run()
    assert outcome.ending == "completed"
    assert outcome.value == {"token": "hunter2", "results": [{"box": 12}]}
    assert DONE == []
    assert local.get(job_id).state is State.COMPLETED
    assert outcome.written.checkpoints == ("pack",)
    assert outcome.written.files == ("slip.txt",)
    assert [job.task for job in outcome.written.jobs] == ["prices"]


def test_production_never_knows(production: App, local: App) -> None:  # (1)
    job_id = failed(production)
    before = production.store.history(job_id)
    pulled(production, local, job_id)
    DebugAttempt(local, job_id, step="charge").run()
    assert production.store.history(job_id) == before
    assert len(production.store.find().jobs) == 2


def test_a_failed_attempt_says_why_and_can_be_repeated(production: App, local: App) -> None:
    job_id = failed(production)
    pulled(production, local, job_id)
    for number in (2, 3, 4):
        outcome = DebugAttempt(local, job_id).run()
        assert isinstance(outcome.error, LookupError)
        assert outcome.job.attempt == number
        assert outcome.job.error is not None and outcome.job.error.message == "no box for o-17"


def test_no_worker_continues_what_was_debugged_although_it_has_a_retry_left(production: App, local: App) -> None:
    job = production.tasks["flaky"].enqueue()
    pulled(production, local, job.id)
    assert DebugAttempt(local, job.id).run().ending == "retried"
    before = local.get(job.id)
    assert before.state is State.QUEUED
    work(local)
    assert local.get(job.id) == before


def test_a_forgotten_step_and_those_after_it_run_again(production: App, local: App) -> None:
    job_id = failed(production)
    pulled(production, local, job_id)
    attempt = DebugAttempt(local, job_id, step="reserve")
    assert attempt.forgotten == ("reserve",)
    attempt.run()
    assert DONE == ["reserve"]


@pytest.mark.parametrize("state", ["queued", "processing", "completed", "cancelled"])
def test_a_copy_runs_whatever_its_state(production: App, local: App, state: str) -> None:
    BROKEN["it"] = False
    job = production.tasks["ship"].enqueue(order="o-17")
    store: JobStore = production.store
    if state == "processing":
        store.claim(store.get(job.id), "w1", 30)
    elif state == "completed":
        work(production)
    elif state == "cancelled":
        store.cancel(job.id, "twice")
    pulled(production, local, job.id)
    assert DebugAttempt(local, job.id).run().ending == "completed"


def test_masked_arguments_are_given_for_one_attempt_and_not_stored(production: App, local: App) -> None:  # (3)
    job_id = failed(production)
    pulled(production, local, job_id, mask=["token"])
    BROKEN["it"] = False
    attempt = DebugAttempt(local, job_id)
    assert attempt.missing_arguments({}) == ["token"]
    assert attempt.missing_arguments({"token": "x"}) == []
    assert attempt.run({"token": "mine"}).value["token"] == "mine"
    assert local.store.load(local.get(job_id), local.get(job_id).args) == {"order": "o-17"}


@pytest.mark.parametrize("step", [None, "fee"])
def test_a_workflow_with_typed_arguments_runs_here_also_from_a_step_before_its_wait(
    production: App, local: App, step: str | None
) -> None:
    job = production.tasks["bill"].enqueue(price=Decimal("1.10"))
    Worker(production, until_empty=True).run()
    pull(production.store, local.store, job.id)
    BROKEN["it"] = False
    outcome = DebugAttempt(local, job.id, step=step).run()
    assert (outcome.error, outcome.value) == (None, "1.60")
    assert local.result(job.id) == Decimal("1.60")


def test_an_async_task_runs_here_too(production: App, local: App) -> None:
    job = production.tasks["ship_async"].enqueue(order="o-17")
    pulled(production, local, job.id)
    assert DebugAttempt(local, job.id).run().value == "o-17"
    assert DONE == ["charge"]


def test_a_type_error_of_the_task_is_not_taken_for_bad_arguments(production: App, local: App) -> None:
    job = production.tasks["typed"].enqueue()
    pulled(production, local, job.id)
    outcome = DebugAttempt(local, job.id).run()
    assert outcome.ending == "failed"
    assert outcome.job.error is not None and outcome.job.error.kind == "TypeError"


def test_arguments_that_the_task_does_not_take_fail_the_attempt(production: App, local: App) -> None:
    job = production.tasks["typed"].enqueue()
    pulled(production, local, job.id)
    outcome = DebugAttempt(local, job.id).run({"month": 11})
    assert outcome.job.error is not None and outcome.job.error.kind == "BadArguments"


def test_a_task_that_asks_to_be_requeued_has_not_ended(production: App, local: App) -> None:
    job = production.tasks["later"].enqueue()
    pulled(production, local, job.id)
    assert DebugAttempt(local, job.id).run().ending == "requeued"
    assert local.get(job.id).state is State.QUEUED


def test_ctrl_c_leaves_the_copy_queued_with_what_it_has_kept(production: App, local: App) -> None:
    job = production.tasks["interrupted"].enqueue()
    pulled(production, local, job.id)
    outcome = DebugAttempt(local, job.id).run()
    assert (outcome.ending, outcome.written.checkpoints) == ("left", ("half",))
    assert local.get(job.id).state is State.QUEUED


def test_a_job_that_is_no_copy_is_refused_with_the_way_to_one(production: App) -> None:  # (1)
    job = production.tasks["ship"].enqueue(order="o-17")
    with pytest.raises(PenstockError, match=f"penstock jobs pull {job.id}"):
        DebugAttempt(production, job.id)
    assert production.get(job.id).state is State.QUEUED


def test_a_task_that_the_app_does_not_have_is_named(production: App, local: App) -> None:
    job = production.tasks["ship"].enqueue(order="o-17")
    pulled(production, local, job.id)
    del local.tasks["ship"]
    with pytest.raises(PenstockError, match="'ship'; the app has bill, flaky, interrupted, later"):
        DebugAttempt(local, job.id)


# ── the app's own database ───────────────────────────────────────────────────────────────────────


def test_an_app_that_has_opened_its_database_is_refused(tmp_path: Path) -> None:
    with make_app(str(tmp_path / "production.db")) as app, connect(tmp_path / "debug.db") as db:
        app.tasks["prices"].enqueue()
        with pytest.raises(PenstockError, match=r"has opened .*production\.db"):
            app.replace_database(db, open_files(tmp_path / "files"))
        assert app.store.db.name.endswith("production.db")


def test_an_app_that_was_given_an_open_database_is_refused_unless_it_is_the_file(tmp_path: Path) -> None:
    with connect(tmp_path / "production.db") as own, connect(tmp_path / "debug.db") as db:
        with pytest.raises(PenstockError, match=r"was given .*production\.db"):
            App(own).replace_database(db, open_files(tmp_path / "files"))
        app = App(db)
        app.replace_database(db, open_files(tmp_path / "files"))
        assert app.store.db is db


def test_an_app_whose_database_is_replaced_never_opens_its_own(tmp_path: Path) -> None:
    app = App(str(tmp_path / "production.db"), files=tmp_path / "production.files")
    with connect(tmp_path / "debug.db") as db:
        app.replace_database(db, open_files(tmp_path / "files"))
        assert app.store.db is db
        assert app.store.files is not None and app.store.files.where == str(tmp_path / "files")
    assert not (tmp_path / "production.db").exists()
    assert not (tmp_path / "production.files").exists()
