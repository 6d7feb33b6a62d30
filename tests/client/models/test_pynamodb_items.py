"""Items that PynamoDB's models write are read by a class here, and the other way round."""

from __future__ import annotations

from datetime import UTC, datetime
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
from pynamodb.models import Model

import penstock
from penstock import Attr, attr, item

PYNAMODB_TIME = "%Y-%m-%dT%H:%M:%S.%f%z"
MOMENT = datetime(2026, 11, 18, 7, 11, 23, 45, tzinfo=UTC)


class Place(MapAttribute):
    city = UnicodeAttribute()
    floor = NumberAttribute(null=True)


class Theirs(Model):
    class Meta:
        table_name = "threads"

    forum_name = UnicodeAttribute(hash_key=True)
    subject = UnicodeAttribute(range_key=True)
    views = NumberAttribute(default=0)
    rate = NumberAttribute(null=True)
    open = BooleanAttribute(default=True)
    tags = UnicodeSetAttribute(default=set)
    numbers = NumberSetAttribute(default=set)
    place = Place(null=True)
    places = ListAttribute(of=Place, default=list)
    document = JSONAttribute(null=True)
    old_bytes = BinaryAttribute(null=True, legacy_encoding=True)
    new_bytes = BinaryAttribute(null=True, legacy_encoding=False)
    posted = UTCDateTimeAttribute()
    expires = TTLAttribute(null=True)
    version = VersionAttribute()


@item("places")
class OurPlace:
    city: Attr[str] = attr(key=True)
    floor: Attr[int | None] = attr(default=None)


@item("threads")
class Ours:
    forum_name: Attr[str] = attr(key=True)
    subject: Attr[str] = attr(sort=True)
    posted: Attr[datetime] = attr(format=PYNAMODB_TIME)
    views: Attr[int] = attr(default=0)
    rate: Attr[float | None] = attr(default=None)
    open: Attr[bool] = attr(default=True)
    tags: Attr[set[str]] = attr(default_factory=set)
    numbers: Attr[set[int]] = attr(default_factory=set)
    place: Attr[OurPlace | None] = attr(default=None)
    places: Attr[list[OurPlace]] = attr(default_factory=list)
    document: Attr[Any] = attr(format="json", default=None)
    old_bytes: Attr[bytes | None] = attr(format="base64", default=None)
    new_bytes: Attr[bytes | None] = attr(default=None)
    expires: Attr[datetime | None] = attr(ttl=True, default=None)
    version: Attr[int] = attr(version=True, default=0)


THEIRS = {
    "views": 7,
    "rate": 0.5,
    "open": False,
    "tags": {"a", "é"},
    "numbers": {1, 2},
    "document": {"deep": [1, None, "x"]},
    "old_bytes": b"\x00old",
    "new_bytes": b"\x00new",
    "posted": MOMENT,
    "expires": MOMENT.replace(microsecond=0),
}
OURS = Ours("f", "s", place=OurPlace("Bern", 3), places=[OurPlace("Ulm")], **THEIRS)


@pytest.fixture
def boto(monkeypatch):
    """PynamoDB's own connection, answered by the embedded engine."""
    with penstock.connect() as db:
        db.execute(
            "CreateTable",
            {
                "TableName": "threads",
                "BillingMode": "PAY_PER_REQUEST",
                "KeySchema": [
                    {"AttributeName": "forum_name", "KeyType": "HASH"},
                    {"AttributeName": "subject", "KeyType": "RANGE"},
                ],
                "AttributeDefinitions": [
                    {"AttributeName": name, "AttributeType": "S"} for name in ("forum_name", "subject")
                ],
            },
        )
        client = penstock.boto3_client(db)
        Theirs._connection = None
        monkeypatch.setattr(type(Theirs._get_connection().connection), "client", client)
        yield db
        Theirs._connection = None


def test_what_pynamodb_writes_is_read_here(boto):
    theirs = Theirs("f", "s", place=Place(city="Bern", floor=3), places=[Place(city="Ulm")], **THEIRS)
    theirs.save()
    found = boto.table(Ours).get(("f", "s"))
    assert found.version == 1
    assert {**vars(found), "version": 0} == vars(OURS)


def test_what_is_written_here_is_read_and_rewritten_by_pynamodb(boto):
    ours = boto.table(Ours)
    ours.put(mine := Ours(**vars(OURS)))
    theirs = Theirs.get("f", "s")
    assert {name: getattr(theirs, name) for name in THEIRS} == THEIRS
    assert (theirs.place.city, theirs.places[0].city, theirs.version) == ("Bern", "Ulm", 1)
    theirs.views = 8
    theirs.save()
    with pytest.raises(penstock.VersionConflict):  # one version for both of them
        ours.put(mine)
    found = ours.get(("f", "s"))
    assert found.views == 8
    ours.put(found)
    theirs.refresh()
    assert theirs.version == 3
