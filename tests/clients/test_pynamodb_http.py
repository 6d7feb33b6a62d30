"""PynamoDB: a model with indexes and a version, through everything that PynamoDB does with a model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pynamodb.attributes import (
    BinaryAttribute,
    BooleanAttribute,
    JSONAttribute,
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    NumberSetAttribute,
    TTLAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
    UTCDateTimeAttribute,
    VersionAttribute,
)
from pynamodb.connection import Connection
from pynamodb.exceptions import DeleteError, DoesNotExist, PutError, TransactWriteError
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex, KeysOnlyProjection, LocalSecondaryIndex
from pynamodb.models import Model
from pynamodb.transactions import TransactGet, TransactWrite
from served import ACCESS_KEY, REGION, SECRET_KEY


class ByState(GlobalSecondaryIndex[Any]):
    class Meta:
        index_name = "by_state"
        projection = AllProjection()

    state = UnicodeAttribute(hash_key=True)
    at = UTCDateTimeAttribute(range_key=True)


class ByPriority(LocalSecondaryIndex[Any]):
    class Meta:
        index_name = "by_priority"
        projection = KeysOnlyProjection()

    queue = UnicodeAttribute(hash_key=True)
    priority = NumberAttribute(range_key=True)


class Place(MapAttribute[Any, Any]):
    city = UnicodeAttribute()
    floor = NumberAttribute(null=True)


class Job(Model):
    class Meta:
        table_name = f"pynamodb-jobs-{os.getpid()}"
        billing_mode = "PAY_PER_REQUEST"
        region = REGION
        aws_access_key_id = ACCESS_KEY
        aws_secret_access_key = SECRET_KEY

    queue = UnicodeAttribute(hash_key=True)
    number = NumberAttribute(range_key=True)
    state = UnicodeAttribute(default="ready")
    at = UTCDateTimeAttribute(default=datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC))
    priority = NumberAttribute(default=0)
    urgent = BooleanAttribute(default=False)
    payload = BinaryAttribute(legacy_encoding=False, null=True)
    options = JSONAttribute(null=True)
    labels = UnicodeSetAttribute(null=True)
    tries = NumberSetAttribute(null=True)
    steps: ListAttribute[Any] = ListAttribute(default=list)
    place = Place(null=True)
    expires_at = TTLAttribute(null=True)
    version = VersionAttribute()

    by_state = ByState()
    by_priority = ByPriority()


@pytest.fixture(autouse=True)
def jobs(server: str) -> Iterator[None]:
    """The model's table, made by the model and dropped after the test."""
    Job.Meta.host = server
    Job._connection = None
    Job.create_table(wait=True)
    assert Job.exists()
    yield
    Job.delete_table()


def save_some(count: int, queue: str = "mail") -> None:
    with Job.batch_write() as batch:
        for number in range(count):
            batch.save(Job(queue, number, priority=count - number, state="done" if number % 2 else "ready"))


def plain(job: Job) -> dict[str, Any]:
    """A job's values; its place as a dict, for PynamoDB's maps do not compare."""
    return job.attribute_values | {"place": job.place.as_dict()}


def numbers(jobs: Any) -> list[int]:
    return [int(job.number) for job in jobs]


def test_a_model_comes_back_as_it_went():
    job = Job(
        "mail",
        7,
        urgent=True,
        payload=b"\x00\xff",
        options={"deep": [1, {"x": None}]},
        labels={"a", "ü"},
        tries={1, 2.5},
        steps=["fetch", 2, [True]],
        place=Place(city="Bern", floor=3),
    )
    job.save()
    found = Job.get("mail", 7, consistent_read=True)
    assert plain(found) == plain(job)
    assert found.version == 1


def test_a_stale_version_is_refused():
    Job("mail", 1).save()
    first, second = Job.get("mail", 1), Job.get("mail", 1)
    first.update(actions=[Job.state.set("taken")])
    assert first.version == 2
    with pytest.raises(PutError, match="The conditional request failed"):
        second.save()
    with pytest.raises(DeleteError, match="The conditional request failed"):
        second.delete()
    second.refresh()
    second.delete()
    with pytest.raises(DoesNotExist):
        Job.get("mail", 1)


def test_an_update_takes_every_kind_of_action():
    job = Job("mail", 1, labels={"a", "b"}, steps=["one"], place=Place(city="Bern", floor=1))
    job.save()
    job.update(
        actions=[
            Job.priority.add(5),
            Job.labels.delete({"a"}),
            Job.steps.set(Job.steps.append(["two"])),
            Job.place.city.set("Basel"),
            Job.place.floor.remove(),
            Job.urgent.set(True),
        ],
        condition=(Job.state == "ready") & Job.steps[0].exists() & Job.labels.contains("a"),
    )
    found = Job.get("mail", 1)
    assert (found.priority, found.labels, found.steps, found.urgent) == (5, {"b"}, ["one", "two"], True)
    assert (found.place.city, found.place.floor) == ("Basel", None)


def test_a_query_follows_its_pages_and_filters():
    save_some(30)
    assert numbers(Job.query("mail", Job.number.between(5, 9))) == [5, 6, 7, 8, 9]
    assert numbers(Job.query("mail", page_size=7, scan_index_forward=False)) == list(reversed(range(30)))
    assert numbers(Job.query("mail", filter_condition=Job.state == "done", limit=3, page_size=4)) == [1, 3, 5]
    assert Job.count("mail", filter_condition=Job.state == "done") == 15
    pages = Job.query("mail", limit=4)
    assert numbers(pages) == [0, 1, 2, 3]
    assert numbers(Job.query("mail", last_evaluated_key=pages.last_evaluated_key, limit=2)) == [4, 5]


def test_its_indexes_are_queried():
    save_some(10)
    ready = Job.by_state.query("ready", Job.at == Job("x", 0).at, page_size=2)
    assert sorted(numbers(ready)) == [0, 2, 4, 6, 8]
    assert numbers(Job.by_priority.query("mail", Job.priority <= 3)) == [9, 8, 7]
    assert Job.by_state.count("done") == 5


def test_a_scan_sees_all_segments():
    save_some(40)
    found = [number for segment in range(4) for number in numbers(Job.scan(segment=segment, total_segments=4))]
    assert sorted(found) == list(range(40))
    assert sorted(numbers(Job.scan(Job.priority.is_in(1, 2)))) == [38, 39]


def test_batches_write_delete_and_get():
    save_some(60)
    wanted = [("mail", number) for number in range(0, 60, 2)]
    assert sorted(numbers(Job.batch_get(wanted))) == list(range(0, 60, 2))
    with Job.batch_write() as batch:
        for job in Job.query("mail", Job.number < 50):
            batch.delete(job)
    assert numbers(Job.query("mail")) == list(range(50, 60))


def test_a_transaction_writes_all_or_nothing(server: str):
    save_some(3)
    connection = Connection(region=REGION, host=server)
    connection.session.set_credentials(ACCESS_KEY, SECRET_KEY)
    with pytest.raises(TransactWriteError) as caught, TransactWrite(connection=connection) as transaction:
        transaction.condition_check(Job, "mail", 0, condition=Job.state == "done")
        transaction.save(Job("mail", 99))
    reasons = caught.value.cancellation_reasons
    assert [reason and reason.code for reason in reasons] == ["ConditionalCheckFailed", None]

    with TransactWrite(connection=connection, client_request_token="once") as transaction:
        transaction.save(Job("mail", 99))
        transaction.update(Job.get("mail", 0), actions=[Job.state.set("done")])
        transaction.delete(Job.get("mail", 1))
    with TransactGet(connection=connection) as reading:
        futures = [reading.get(Job, "mail", number) for number in (0, 99)]
    assert [(future.get().state, future.get().version) for future in futures] == [("done", 1), ("ready", 1)]
    assert numbers(Job.query("mail")) == [0, 2, 99]


def test_a_models_ttl_is_switched_on_with_its_table(dynamodb: Any):
    description = dynamodb.describe_time_to_live(TableName=Job.Meta.table_name)["TimeToLiveDescription"]
    assert description["AttributeName"] == "expires_at"
    Job("mail", 1, expires_at=timedelta(hours=1)).save()
    assert Job.get("mail", 1).expires_at > datetime.now(UTC)
