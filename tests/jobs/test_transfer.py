"""Jobs pulled from every database into a file, and forked into a new job (jobs/copies/transfer.py cites by number)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from job_worlds import FAILURE, claimable, claimed, made, running, same_table, settle_all

from penstock.client.database import Database, connect
from penstock.client.transports.base import Transport
from penstock.clock import ManualClock
from penstock.errors import PenstockError
from penstock.files import open_files
from penstock.jobs.copies.table_items import MOST_ITEMS, ItemKey
from penstock.jobs.copies.transfer import (
    AlreadyPulled,
    check_copy,
    fill,
    forget_steps,
    fork,
    masked_text,
    plan_fork,
    pull,
    split_at,
)
from penstock.jobs.explain import explain, gather
from penstock.jobs.layouts.layout import Item
from penstock.jobs.model.job import BadJob, Job, JobFile, JobNotFound, NewJob
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore

LONG = 20_000
"""Characters of a payload that gets a record of its own."""
HUGE = 400_000
"""Of one that is in a file."""


@pytest.fixture
def source(store: JobStore, tmp_path: Path) -> JobStore:
    return same_table(store, files=open_files(tmp_path / "production"))


@pytest.fixture
def home(source: JobStore, tmp_path: Path) -> Iterator[JobStore]:
    """A file to pull into, not made yet."""
    with connect(tmp_path / "debug.db") as db:
        yield JobStore(db, source.layout, files=open_files(tmp_path / "debug.db.files"), clock=source.clock)


def failed(store: JobStore, args: dict[str, Any] | None = None, **options: Any) -> Job:
    """A job that failed at its third step, with two checkpoints, a file and a few entries."""
    job = running(store, args=args or {"order": "o-17"}, **options)
    job = store.report(job, checkpoint="charge", value={"paid": 12})
    job = store.report(job, progress=40, step="reserving")
    job = store.report(job, checkpoint="reserve", value=["box"])
    assert store.files is not None
    job = store.attach(job, JobFile("slip.txt", store.files.save(f"{job.id}/slip.txt", b"a packing slip")))
    return store.fail(job, FAILURE)


def all_items(db: Database, table: str) -> list[Item]:
    items: list[Item] = db.execute("Scan", {"TableName": table, "ConsistentRead": True})["Items"]
    return sorted(items, key=str)


# ── pulling ──────────────────────────────────────────────────────────────────────────────────────


def test_a_pulled_job_has_all_that_its_original_has(source: JobStore, home: JobStore) -> None:
    job = failed(source)
    pulled = pull(source, home, job.id)
    before, after = source.history(job.id), home.history(job.id)
    assert replace(after.job, pulled_from="", expires_at=before.job.expires_at) == before.job
    assert (after.entries, after.checkpoints, after.events, after.files) == (
        before.entries,
        before.checkpoints,
        before.events,
        before.files,
    )
    assert home.files is not None and home.files.read(f"{job.id}/slip.txt") == b"a packing slip"
    assert (pulled.files, pulled.file_bytes, pulled.replaced) == (1, 14, False)
    assert pulled.read_units > 0


def test_a_pull_writes_nothing_to_its_source(source: JobStore, home: JobStore) -> None:  # (1)
    job = failed(source)
    before = all_items(source.db, source.layout.table)
    pull(source, home, job.id)
    assert all_items(source.db, source.layout.table) == before


class _Forbidding:
    """A database that answers reads, and notes everything else."""

    def __init__(self, inner: Transport) -> None:
        self.inner, self.name, self.operations = inner, inner.name, set[str]()

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        self.operations.add(operation)
        return self.inner.execute(operation, request)

    def close(self) -> None:
        self.inner.close()


def test_a_pull_sends_only_reads(source: JobStore, home: JobStore) -> None:  # (1)
    parent = source.complete(running(source, "w1"), {"price": 12})
    job = made(source, depends_on=(parent.id,))
    watched = _Forbidding(source.db.transport)
    pull(same_table(source, Database(watched)), home, job.id)
    assert watched.operations <= {"GetItem", "BatchGetItem", "Query", "DescribeTable"}


@pytest.mark.parametrize("length", [LONG, HUGE])
def test_long_arguments_results_and_checkpoints_come_along(source: JobStore, home: JobStore, length: int) -> None:
    job = running(source, args={"text": "a" * length})
    job = source.report(job, checkpoint="read", value="c" * length)
    job = source.complete(job, "r" * length)
    pull(source, home, job.id)
    copy = home.get(job.id)
    point = home.checkpoint(job.id, "read")
    assert point is not None
    assert home.load(copy, copy.args) == {"text": "a" * length}
    assert home.load(copy, copy.result) == "r" * length
    assert home.load(copy, point.data) == "c" * length


def test_records_of_kinds_that_nobody_knows_here_come_along(source: JobStore, home: JobStore) -> None:  # (3)
    job = failed(source)
    item = source.layout.record_get(job.id, "wait#approval").request["Key"]
    item = {**item, "ttl": {"N": str(job.expires_at)}, "until": {"S": "2030"}}
    source.db.execute("PutItem", {"TableName": source.layout.table, "Item": item})
    pull(source, home, job.id)
    call = home.layout.record_get(job.id, "wait#approval")
    assert home.db.execute(call.operation, call.request)["Item"]["until"] == {"S": "2030"}


@pytest.mark.parametrize("result", [{"price": 12}, "r" * LONG, "r" * HUGE], ids=["short", "long", "huge"])
def test_the_results_of_its_parents_come_along_and_their_arguments_do_not(
    source: JobStore, home: JobStore, result: object
) -> None:
    parent = source.complete(claimed(source, made(source, args={"token": "secret"})), result)
    job = made(source, depends_on=(parent.id,))
    pulled = pull(source, home, job.id)
    copy = home.get(parent.id)
    assert pulled.parents == (parent.id,)
    assert home.load(copy, copy.result) == result
    assert home.load(copy, copy.args) == {}
    assert home.depends_on(home.get(job.id)) == [parent.id]


def test_a_parent_whose_result_was_pulled_can_be_pulled_itself(source: JobStore, home: JobStore) -> None:
    parent = source.complete(claimed(source, made(source, args={"month": 11})), 1)
    pull(source, home, made(source, depends_on=(parent.id,)).id)
    with pytest.raises(PenstockError, match="Only the result"):
        check_copy(home.get(parent.id), "debug.db")
    pull(source, home, parent.id)
    check_copy(home.get(parent.id), "debug.db")
    child = made(source, depends_on=(parent.id,))
    pull(source, home, child.id)
    pull(source, home, child.id, force=True)
    assert home.load(home.get(parent.id), home.get(parent.id).args) == {"month": 11}


@pytest.mark.parametrize("state", ["queued", "processing", "failed"])
def test_no_worker_finds_a_copy_whatever_its_state(source: JobStore, home: JobStore, state: str) -> None:  # (4)
    job = failed(source) if state == "failed" else made(source) if state == "queued" else running(source)
    pull(source, home, job.id)
    assert isinstance(home.clock, ManualClock)
    home.clock.advance(24 * 3600)
    assert claimable(home) == []
    if state == "failed":
        home.retry(job.id)
    assert claimable(home) == []
    assert f"a copy from {source.db.name}" in explain(home.get(job.id), gather(home, home.get(job.id)))


class _Busy:
    """A database whose job is written whenever it is read, `times` times."""

    def __init__(self, store: JobStore, job: Job, times: int) -> None:
        self.inner, self.name = store.db.transport, store.db.name
        self._store, self._job, self.times = store, job, times

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        answer = self.inner.execute(operation, request)
        if operation == "Query" and self.times > 0:
            self.times -= 1
            self._store.log(self._job.id, "goes on")
        return answer

    def close(self) -> None:
        self.inner.close()


@pytest.mark.parametrize(("times", "notes"), [(2, 0), (100, 1)])
def test_a_job_that_is_written_meanwhile_is_read_again_and_not_for_ever(
    source: JobStore, home: JobStore, times: int, notes: int
) -> None:
    job = running(source)
    busy = _Busy(source, job, times)
    pulled = pull(same_table(source, Database(busy)), home, job.id)
    assert len(pulled.notes) == notes
    if not notes:
        assert home.get(job.id).entries == len(home.entries(job.id)) == times


def test_a_second_pull_is_refused_unless_it_is_forced(source: JobStore, home: JobStore) -> None:
    job = failed(source)
    pull(source, home, job.id)
    home.log(job.id, "looked at")
    with pytest.raises(AlreadyPulled, match="--force"):
        pull(source, home, job.id)
    assert home.get(job.id).entries == job.entries + 1
    assert pull(source, home, job.id, force=True).replaced
    assert [entry.message for entry in home.entries(job.id)] == [entry.message for entry in source.entries(job.id)]


def test_a_job_of_the_file_itself_is_never_replaced(source: JobStore, home: JobStore) -> None:
    job = failed(source)
    home.ensure_tables()
    made(home, id=job.id)
    with pytest.raises(PenstockError, match="no copy"):
        pull(source, home, job.id, force=True)
    assert home.get(job.id).state is State.QUEUED


def test_a_job_is_not_pulled_into_its_own_file_nor_to_a_server(source: JobStore, home: JobStore) -> None:
    job = failed(source)
    with pytest.raises(PenstockError, match=r"into another file|into a file"):
        pull(source, source, job.id)
    with pytest.raises(JobNotFound):
        pull(source, home, "job_none")


def test_what_a_killed_pull_has_left_is_removed_by_the_next(source: JobStore, home: JobStore) -> None:  # (2)
    job = failed(source)
    home.ensure_tables()
    stale = home.layout.record_get(job.id, "checkpoint#stale").request["Key"]
    home.db.execute("PutItem", {"TableName": home.layout.table, "Item": {**stale, "ttl": {"N": str(job.expires_at)}}})
    pull(source, home, job.id)
    assert home.checkpoint(job.id, "stale") is None


def test_files_that_nobody_can_find_stop_a_pull_before_it_has_made_a_job(source: JobStore, home: JobStore) -> None:
    job = failed(source)
    with pytest.raises(PenstockError, match="PENSTOCK_FILES"):
        pull(same_table(source, files=None), home, job.id)
    assert home.get_existing([job.id]) == []


def test_a_file_that_is_gone_is_told_and_the_rest_is_copied(source: JobStore, home: JobStore) -> None:
    job = failed(source)
    assert source.files is not None
    source.files.delete(f"{job.id}/slip.txt")
    pulled = pull(source, home, job.id)
    assert "slip.txt" in pulled.notes[0]
    assert home.get(job.id).state is State.FAILED


@pytest.mark.parametrize("length", [10, LONG, HUGE])
def test_masked_arguments_are_left_out_wherever_they_lie(
    source: JobStore, home: JobStore, tmp_path: Path, length: int
) -> None:
    args = {"token": "hunter2-a", "card": {"number": "hunter2-b", "name": "ada"}, "text": "a" * length}
    job = failed(source, args)
    copy = pull(source, home, job.id, mask=["token", "card.number"]).job
    assert home.load(copy, copy.args) == {"card": {"name": "ada"}, "text": "a" * length}
    assert copy.masked == ("token", "card.number")
    home.db.close()
    kept = [path for path in tmp_path.rglob("*") if "debug.db" in str(path) and path.is_file()]
    assert not any(b"hunter2" in path.read_bytes() for path in kept)


@pytest.mark.parametrize("length", [10, LONG, HUGE])
def test_secret_fields_of_results_are_masked_in_a_parent_and_in_the_job_itself(
    source: JobStore, home: JobStore, tmp_path: Path, length: int
) -> None:
    result = {"key": "hunter2", "text": "a" * length}
    parent, _ = source.create(NewJob("pay", {}, secret=("return.key",)))
    source.complete(claimed(source, parent), result)
    child, _ = source.create(NewJob("ship", {}, depends_on=(parent.id,), secret=("return.key",)))
    settle_all(source)
    source.complete(claimed(source, source.get(child.id)), result)
    copy = pull(source, home, child.id, mask=[]).job
    shown = {"key": "***", "text": "a" * length}
    for one in (copy, home.get(parent.id)):
        assert home.load(one, one.result) == shown
    home.db.close()
    kept = [path for path in tmp_path.rglob("*") if "debug.db" in str(path) and path.is_file()]
    assert not any(b"hunter2" in path.read_bytes() for path in kept)


def test_a_mask_without_a_name_is_refused_where_nothing_is_secret(source: JobStore, home: JobStore) -> None:
    job = failed(source)
    with pytest.raises(BadJob, match="Nothing of the job is declared secret"):
        pull(source, home, job.id, mask=[])
    assert home.get_existing([job.id]) == []


def test_a_mask_of_an_argument_that_is_not_there_is_refused(source: JobStore, home: JobStore) -> None:
    job = failed(source)
    with pytest.raises(BadJob, match=r"no argument card\.number .* it has order"):
        pull(source, home, job.id, mask=["card.number"])
    assert home.get_existing([job.id]) == []


def test_a_mask_goes_through_lists_and_what_is_declared_secret_may_be_absent(source: JobStore, home: JobStore) -> None:
    args = {"orders": [{"card": "hunter2"}, {"card": "hunter2", "n": 1}, [{"card": "hunter2"}]]}
    secret = ("orders.card", "token", "orders.card.pin")
    job, _ = source.create(NewJob("ship", args, secret=secret))
    copy = pull(source, home, job.id, mask=secret).job
    assert home.load(copy, copy.args) == {"orders": [{}, {"n": 1}, [{}]]}
    assert copy.masked == ("orders.card",)
    assert masked_text(args, secret) == '{"orders":[{"card":"***"},{"card":"***","n":1},[{"card":"***"}]]}'
    left = home.load(copy, copy.args)
    fill(left, "orders.card", "4242")
    assert left == {"orders": [{"card": "4242"}, {"card": "4242", "n": 1}, [{"card": "4242"}]]}


def test_the_delivery_of_a_webhook_is_not_forked(source: JobStore) -> None:
    job, _ = source.create(NewJob("penstock.webhook", {"event": {}}))
    with pytest.raises(BadJob, match="Penstock's own tasks"):
        fork(source, job.id, args={"event": {"job_id": "forged"}})


def test_secrets_are_masked_on_a_screen() -> None:
    args = {"order": 1, "card": {"number": "4242"}}
    assert masked_text(args, ["card.number", "token"], ["token"]) == '{"order":1,"card":{"number":"***"},"token":"***"}'


# ── items ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def lines(source: JobStore) -> Iterator[str]:
    """A table with a sort key and an index."""
    name = f"lines-{source.layout.table}"
    attributes = [("customer", "S"), ("number", "N"), ("state", "S")]
    source.db.execute(
        "CreateTable",
        {
            "TableName": name,
            "KeySchema": [
                {"AttributeName": "customer", "KeyType": "HASH"},
                {"AttributeName": "number", "KeyType": "RANGE"},
            ],
            "AttributeDefinitions": [{"AttributeName": a, "AttributeType": t} for a, t in attributes],
            "GlobalSecondaryIndexes": [
                {
                    "IndexName": "by-state",
                    "KeySchema": [{"AttributeName": "state", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                }
            ],
            "BillingMode": "PAY_PER_REQUEST",
        },
    )
    for number in range(3):
        item = {"customer": {"S": "c,1"}, "number": {"N": str(number)}, "state": {"S": "open"}}
        source.db.execute("PutItem", {"TableName": name, "Item": item})
    yield name
    source.db.execute("DeleteTable", {"TableName": name})


def test_items_come_along_into_a_table_with_the_same_key_and_indexes(
    source: JobStore, home: JobStore, lines: str
) -> None:
    job = failed(source)
    one = ItemKey.parse(f'{lines}:{{"customer": "c,1", "number": 2}}')
    assert pull(source, home, job.id, items=[one]).items == 1
    assert [item["number"] for item in all_items(home.db, lines)] == [{"N": "2"}]
    request = {
        "TableName": lines,
        "IndexName": "by-state",
        "KeyConditionExpression": "#s = :s",
        "ExpressionAttributeNames": {"#s": "state"},
        "ExpressionAttributeValues": {":s": {"S": "open"}},
    }
    assert home.db.execute("Query", request)["Count"] == 1
    whole = ItemKey.parse(f'{lines}:{{"customer": "c,1"}}')
    assert pull(source, home, job.id, items=[whole], force=True).items == 3


@pytest.mark.parametrize(
    ("key", "message"),
    [("customer=c2", "has no item"), ("number=1", "the key of .* is customer and number"), ("customer=c1,x=1", "key")],
)
def test_items_that_cannot_be_found_stop_a_pull_before_it_writes(
    source: JobStore, home: JobStore, lines: str, key: str, message: str
) -> None:
    job = failed(source)
    with pytest.raises(PenstockError, match=message):
        pull(source, home, job.id, items=[ItemKey.parse(f"{lines}:{key}")])
    assert home.get_existing([job.id]) == []


def test_a_partition_with_very_many_items_is_refused(source: JobStore, home: JobStore, lines: str) -> None:
    if source.db.name.startswith("http"):
        pytest.skip("so many items take long over HTTP")
    for number in range(3, MOST_ITEMS + 1):
        item = {"customer": {"S": "c,1"}, "number": {"N": str(number)}}
        source.db.execute("PutItem", {"TableName": lines, "Item": item})
    with pytest.raises(PenstockError, match="more than 1,000 items"):
        pull(source, home, failed(source).id, items=[ItemKey.parse(f'{lines}:{{"customer": "c,1"}}')])


@pytest.mark.parametrize("text", ["orders", "orders:", ":id=1", "orders:id", "orders:id=", "orders:{id}", "a b:id=1"])
def test_what_names_no_item_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(PenstockError, match="orders:id=o-17"):
        ItemKey.parse(text)


# ── steps, and forks ─────────────────────────────────────────────────────────────────────────────


def names(points: object) -> list[str]:
    return [point.name for point in points]  # type: ignore[attr-defined]


def test_checkpoints_are_split_by_the_order_in_which_they_were_kept(source: JobStore) -> None:
    job = running(source)
    for name in ("charge", "a cursor", "reserve", "a cursor", "pack"):  # all in the same millisecond
        job = source.report(job, checkpoint=name, value=1)
    before, after = split_at(source.history(job.id), "reserve")
    assert (names(before), names(after)) == (["charge"], ["reserve", "a cursor", "pack"])
    assert names(split_at(source.history(job.id), None)[0]) == ["charge", "reserve", "a cursor", "pack"]
    with pytest.raises(BadJob, match="no checkpoint packed; it has charge, reserve"):
        split_at(source.history(job.id), "packed")


def test_a_step_and_what_came_after_it_is_forgotten(source: JobStore, home: JobStore) -> None:
    job = failed(source)
    pull(source, home, job.id)
    assert forget_steps(home, job.id, "reserve") == ("reserve",)
    assert names(home.history(job.id).checkpoints) == ["charge"]
    assert names(source.history(job.id).checkpoints) == ["charge", "reserve"]


def test_a_fork_begins_with_what_was_kept_before_its_step(source: JobStore) -> None:
    job = failed(source, priority=7, tenant="acme", concurrency_key="bank", max_concurrent=2)
    forked = fork(source, job.id, from_step="reserve").job
    assert forked is not None
    new = source.history(forked.id)
    assert names(new.checkpoints) == ["charge"]
    assert source.load(new.job, new.checkpoints[0].data) == {"paid": 12}
    assert source.load(new.job, new.job.args) == {"order": "o-17"}
    assert (new.job.priority, new.job.tenant, new.job.concurrency_key, new.job.max_concurrent) == (7, "acme", "bank", 2)
    assert new.job.forked_from == job.id
    assert new.events[0].detail == f"forked from {job.id}"
    assert claimable(source) == [new.job.id]
    assert source.get(job.id) == job


def test_a_fork_without_a_step_begins_with_everything_and_its_own_files(source: JobStore) -> None:
    job = failed(source)
    forked = fork(source, job.id, args={"order": "o-18"}).job
    assert forked is not None and source.files is not None
    new = source.history(forked.id)
    assert names(new.checkpoints) == ["charge", "reserve"]
    assert source.load(new.job, new.job.args) == {"order": "o-18"}
    source.files.delete(f"{job.id}/slip.txt")
    assert source.files.read(f"{new.job.id}/slip.txt") == b"a packing slip"
    assert [file.saved.key for file in new.files] == [f"{new.job.id}/slip.txt"]


def test_a_forks_checkpoint_in_a_file_is_its_own(source: JobStore) -> None:
    job = source.report(running(source), checkpoint="read", value="c" * HUGE)
    source.fail(job, FAILURE)
    forked = fork(source, job.id).job
    assert forked is not None
    point = source.checkpoint(forked.id, "read")
    assert point is not None and point.data.file is not None
    assert point.data.file.key.startswith(forked.id)
    assert source.load(forked, point.data) == "c" * HUGE


def test_a_planned_fork_writes_nothing(source: JobStore) -> None:
    job = failed(source)
    before = all_items(source.db, source.layout.table)
    plan = plan_fork(source, job.id, "reserve")
    assert (names(plan.checkpoints), plan.left_out, plan.job) == (["charge"], ("reserve",), None)
    assert all_items(source.db, source.layout.table) == before


def test_a_fork_depends_on_the_same_jobs_as_far_as_they_are_there(source: JobStore) -> None:
    there, gone = (source.complete(running(source), 1) for _ in range(2))
    job = made(source, depends_on=(there.id, gone.id))
    source.fail(claimed(source, job), FAILURE)
    key = source.layout.main_key(gone.id)
    source.db.execute("DeleteItem", {"TableName": source.layout.table, "Key": key})
    done = fork(source, job.id)
    assert done.missing_parents == (gone.id,)
    assert done.job is not None and source.depends_on(done.job) == [there.id]
    assert claimable(source) == [done.job.id]


def test_a_fork_is_refused_while_another_job_holds_its_unique_key(source: JobStore) -> None:
    job = failed(source, unique_key="o-17")
    holder = made(source, args={"order": "o-17"}, unique_key="o-17")
    before = all_items(source.db, source.layout.table)
    with pytest.raises(BadJob, match=holder.id):
        fork(source, job.id)
    assert all_items(source.db, source.layout.table) == before


def test_a_copy_without_its_secrets_is_forked_only_with_them(source: JobStore, home: JobStore) -> None:
    job = failed(source, {"order": "o-17", "token": "t"})
    pull(source, home, job.id, mask=["token"])
    with pytest.raises(BadJob, match="token"):
        fork(home, job.id)
    forked = fork(home, job.id, args={"token": "other"}).job
    assert forked is not None
    assert claimable(home) == [forked.id]
    assert not forked.pulled_from
