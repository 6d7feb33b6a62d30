"""What a short job asks of SQLite, counted: its item read and written, and its rows in two indexes moved."""

from __future__ import annotations

from pathlib import Path

import penstock
from penstock.jobs.model.job import Job

JOBS = 7


def test_a_claim_and_a_completion_are_four_statements_each_in_one_transaction(tmp_path: Path) -> None:
    with penstock.App(tmp_path / "jobs.db") as app:

        @app.task()
        def noop(ctx: penstock.JobContext) -> None: ...

        noop.enqueue_many({} for _ in range(2 * JOBS))
        candidates = app.store.claimable("default", 2 * JOBS, evenly=True).jobs
        running = [job for job in _together(app, [], candidates[:JOBS])[1] if job is not None]
        statements: list[str] = []
        app.store.db.engine.store.connection().set_trace_callback(statements.append)
        ended, claimed = _together(app, running, candidates[JOBS:])
        assert None not in ended and None not in claimed
        assert [one.split()[0] for one in statements[:2]] == ["BEGIN", "SELECT"] and statements[-1] == "COMMIT"
        assert len(statements) - 3 <= 4 * (len(ended) + len(claimed))


def _together(
    app: penstock.App, running: list[Job], candidates: list[Job]
) -> tuple[list[Job | None], list[Job | None]]:
    completed = [(job, "null") for job in running]
    return app.store.complete_and_claim(completed, [(job, 30.0) for job in candidates], "worker")
