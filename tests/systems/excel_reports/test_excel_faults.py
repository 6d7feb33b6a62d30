"""Report jobs on a database that throttles, times out and loses answers (S0.4, S0.8, S0.11)."""

from __future__ import annotations

from typing import Any

import pytest
from report_worlds import LAYOUTS, START

from penstock.client.database import Database
from penstock.client.transports.embedded import EmbeddedTransport
from penstock.client.wrappers.faults import Faults, Rates
from penstock.client.wrappers.retries import RequestRetries, Retrying
from penstock.clock import ManualClock
from penstock.engine import Engine
from penstock.errors import PenstockError
from penstock.systems.excel_reports.store import ReportJobs


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_S0_8_lost_answers_leave_every_record_once(layout: Any, seed: int) -> None:
    with Engine() as engine:
        ReportJobs(Database(EmbeddedTransport(engine)), layout=layout).create_table()
        faults = Faults(EmbeddedTransport(engine), Rates.every_kind(0.4), seed=seed)
        retrying = Retrying(faults, RequestRetries(attempts=40), unlimited=True, sleep=lambda seconds: None)
        jobs = ReportJobs(Database(retrying), layout=layout, clock=ManualClock(START))
        job_id = jobs.create_job("p").job_id
        jobs.update_job_status(job_id, "processing", token=1)
        for turn in range(40):
            assert jobs.update_job_progress(job_id, turn, "step", token=1, turn=turn) is not None
        jobs.complete_job(job_id, file_name="f", file_key="k", download_url="u", token=1)
        assert faults.counts, "there were faults"
        found = jobs.get_job_with_logs(job_id)
        assert [log.fields.get("turn") for log in found.progress] == list(range(40))
        assert [log.number for log in found.logs] == list(range(1, 42))
        assert (found.job.status, jobs.lost_reports) == ("completed", 0)


def test_S0_11_without_repeats_lost_progress_is_counted_and_the_rest_is_there() -> None:
    with Engine() as engine:
        ReportJobs(Database(EmbeddedTransport(engine))).create_table()
        faults = Faults(EmbeddedTransport(engine), Rates(throttle=0.3), seed=1)
        jobs = ReportJobs(Database(faults), clock=ManualClock(START))
        with faults.off():
            job_id = jobs.create_job("p").job_id
        told = [jobs.update_job_progress(job_id, turn, "step", turn=turn) is not None for turn in range(60)]
        assert 0 < jobs.lost_reports == told.count(False) < 60
        with faults.off():
            kept = [log.fields["turn"] for log in jobs.get_progress_logs(job_id)]
            assert kept == [turn for turn in range(60) if told[turn]]
        refused = 0
        for _ in range(20):
            try:
                jobs.update_job_status(job_id, "processing", token=refused + 1)
            except PenstockError:
                refused += 1
        assert refused, "what changes the status raises"
