"""Jobs of several tables as one list (penstock/jobs/sources.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from penstock.client.database import Database, connect
from penstock.files import Files
from penstock.jobs.layouts.item_collection import CollectionLayout
from penstock.jobs.model.job import History, Job, JobNotFound, NewJob
from penstock.jobs.model.state import State
from penstock.jobs.sources import (
    AllJobs,
    JobQuery,
    JobSource,
    NotChangedHere,
    ReadOnlySource,
    TableDescription,
    newest_jobs,
    place_of,
    scan_items,
)
from penstock.jobs.store.store import JobStore
from penstock.records.run_records import RunLog
from penstock.tables.apply.apply import make
from penstock.tables.definitions.definition import Table

ORDERS = Table("orders", "order_id:S")


@dataclass(frozen=True, slots=True)
class Orders(ReadOnlySource):
    """Another system's table: an item is a job."""

    db: Database
    table: str = "orders"
    system: str = "shop"
    commands: str = "shop orders"

    def find(self, query: JobQuery, notes: list[str]) -> Sequence[Job]:
        return newest_jobs(
            (_order(item) for item in scan_items(self.db, self.table, ("order_id",), query, notes)), query
        )

    def history(self, job_id: str) -> History | None:
        item = self.db.table("orders", key="order_id:S").get({"order_id": job_id})
        return None if item is None else History(_order(item))


def _order(item: dict[str, object]) -> Job:
    at = float(str(item["at"]))
    state = State(str(item.get("state", "completed")))
    return Job(str(item["order_id"]), "order", state, at, at, at, 2_000_000_000)


def orders_source(db: Database, table: TableDescription, files: Files | None) -> JobSource | None:
    return Orders(db) if table.keys == ("order_id",) else None


@pytest.fixture
def db() -> Iterator[Database]:
    with connect(":memory:") as db:
        yield db


def store(db: Database, table: str) -> JobStore:
    found = JobStore(db, CollectionLayout(table))
    found.ensure_tables()
    return found


def add_orders(db: Database, *orders: dict[str, object]) -> None:
    make(db, ORDERS, "orders")
    for order in orders:
        db.table("orders", key="order_id:S").put(order)


def all_jobs(db: Database) -> AllJobs:
    return AllJobs.in_database(db, [orders_source])


def test_every_table_that_has_jobs_is_found_by_its_keys_whatever_its_name(db: Database) -> None:
    store(db, "penstock-jobs")
    store(db, "anything")
    add_orders(db)
    make(db, Table("customers", "customer_id:S"), "customers")
    assert [(one.system, one.table) for one in all_jobs(db).sources] == [
        ("shop", "orders"),
        ("jobs", "anything"),
        ("jobs", "penstock-jobs"),
    ]


def test_jobs_of_all_sources_are_one_list_newest_first_in_pages_that_repeat_none(db: Database) -> None:
    first, second = store(db, "penstock-jobs"), store(db, "others")
    made = [first.create(NewJob("a", {}))[0], second.create(NewJob("b", {}))[0], first.create(NewJob("c", {}))[0]]
    add_orders(db, *({"order_id": f"order-{number}", "at": 1_700_000_000 + number} for number in range(7)))
    jobs = all_jobs(db)
    listed = jobs.find(JobQuery()).jobs
    assert list(listed) == sorted(listed, key=place_of, reverse=True)
    assert {job.id for job in listed} == {job.id for job in made} | {f"order-{number}" for number in range(7)}
    query, pages = JobQuery(limit=3), []
    while True:
        page = jobs.find(query)
        pages.append([job.id for job in page.jobs])
        if page.token is None:
            break
        query = replace(query, before=page.token)
    assert [job_id for page in pages for job_id in page] == [job.id for job in listed]
    assert [len(page) for page in pages] == [3, 3, 3, 1]


def test_a_list_goes_by_state_task_and_time(db: Database) -> None:
    store(db, "penstock-jobs").create(NewJob("a", {}))
    add_orders(
        db,
        {"order_id": "new", "at": 1_700_000_300, "state": "failed"},
        {"order_id": "old", "at": 1_700_000_100, "state": "failed"},
        {"order_id": "done", "at": 1_700_000_200},
    )
    jobs = all_jobs(db)

    def ids(query: JobQuery) -> list[str]:
        return [job.id for job in jobs.find(query).jobs]

    assert ids(JobQuery(state=State.FAILED)) == ["new", "old"]
    assert ids(JobQuery(task="order")) == ["new", "done", "old"]
    assert ids(JobQuery(task="order", since=1_700_000_150, until=1_700_000_250)) == ["done"]
    assert ids(JobQuery(tenant="nobody")) == []


def test_a_job_that_two_sources_have_is_listed_once_as_the_system_says_it(db: Database) -> None:
    job, _ = store(db, "orders-work").create(NewJob("work", {}))
    add_orders(db, {"order_id": job.id, "at": job.created_at})
    page = all_jobs(db).find(JobQuery())
    assert [(one.id, one.task) for one in page.jobs] == [(job.id, "order")]
    assert page.sources[job.id].system == "shop"


def test_a_system_changes_its_own_jobs_and_only_a_job_store_is_changed_here(db: Database) -> None:
    plain, _ = store(db, "others").create(NewJob("a", {}))
    work, _ = store(db, "orders-work").create(NewJob("work", {}))
    add_orders(db, {"order_id": work.id, "at": work.created_at}, {"order_id": "o1", "at": 1_700_000_000})
    jobs = all_jobs(db)
    assert jobs.changeable(plain.id).layout.table == "others"
    for job_id in ("o1", work.id):
        with pytest.raises(NotChangedHere, match="is a job of shop: change it with `shop orders`"):
            jobs.changeable(job_id)
    with pytest.raises(JobNotFound):
        jobs.changeable("nothing")


def test_a_job_is_read_where_it_can_be_changed_before_where_it_can_only_be_read(db: Database) -> None:
    work, _ = store(db, "orders-work").create(NewJob("work", {}))
    add_orders(db, {"order_id": work.id, "at": work.created_at}, {"order_id": "o1", "at": 1_700_000_000})
    jobs = all_jobs(db)
    source, history = jobs.history(work.id)
    assert (source.table, history.job.task) == ("orders-work", "work")
    assert jobs.history("o1")[0].table == "orders"
    with pytest.raises(JobNotFound):
        jobs.history("nothing")


def test_a_table_without_an_index_is_read_up_to_a_limit_and_the_list_says_so(db: Database) -> None:
    add_orders(db, *({"order_id": f"order-{number}", "at": 1_700_000_000 + number} for number in range(7)))
    jobs = all_jobs(db)
    assert jobs.find(JobQuery(most_scanned=7)).notes == ()
    page = jobs.find(JobQuery(most_scanned=5))
    assert len(page.jobs) == 5
    assert page.notes == ("orders has more than 5 items: not all were read for this list.",)


def test_runs_of_record_processors_are_jobs(db: Database) -> None:
    log = RunLog(db, "run_1", "Records")
    log.begin(function="handle", total=10)
    (job,) = all_jobs(db).find(JobQuery()).jobs
    assert (job.id, job.task, job.state, job.progress) == ("run_1", "Records:handle", State.PROCESSING, 0.0)


def test_a_table_that_is_deleted_while_it_is_listed_has_no_jobs(db: Database) -> None:
    store(db, "penstock-jobs").create(NewJob("a", {}))
    add_orders(db, {"order_id": "o1", "at": 1_700_000_000})
    jobs = all_jobs(db)
    db.execute("DeleteTable", {"TableName": "orders"})
    assert [job.task for job in jobs.find(JobQuery()).jobs] == ["a"]
