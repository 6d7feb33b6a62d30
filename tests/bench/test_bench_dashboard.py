"""The world that the dashboard is measured on: jobs written as they are stored are jobs as the store reads them."""

from bench.dashboard import OF_A_HUNDRED, fill

from penstock.client.database import connect
from penstock.jobs.store.store import JobStore


def test_the_jobs_that_the_dashboard_is_measured_with_are_jobs() -> None:
    with connect(":memory:") as db:
        store = JobStore(db)
        store.create_tables()
        fill(store, 100)
        found = {state: len(store.find(state=state, limit=200).jobs) for state, _ in OF_A_HUNDRED}
        assert found == dict(OF_A_HUNDRED)
        assert all(job.args.text and "project" in job.args.text for job in store.find(limit=200).jobs)
