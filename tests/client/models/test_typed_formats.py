"""What attributes of less usual types and classes of other kinds are stored as, and come back as."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

import pytest

import penstock
from penstock import Attr, Table, attr, item
from penstock.tables.definitions.aws_shapes import create_request

AT = datetime(2026, 11, 18, 7, 11, 23, 456000, tzinfo=UTC)


@item("odd")
class Odd:
    id: Attr[str] = attr(key=True)
    at_ms: Attr[datetime] = attr(format="epoch_ms")
    day: Attr[date] = attr(format="%d.%m.%Y")
    pair: Attr[tuple[int, ...]]
    took: Attr[timedelta]


@item("odd", frozen=True)
class Frozen:
    id: Attr[str] = attr(key=True)
    note: Attr[str | None] = attr(default=None)


@dataclass(slots=True)
class Slotted:
    id: Annotated[str, attr(key=True)]
    count: int = 0


Slotted.__item__ = item("odd")  # type: ignore[attr-defined]


@dataclass
class Plain:
    id: Annotated[str, attr(key=True)]
    size: Annotated[int, attr(name="s", index="by-size")]


@pytest.fixture
def odd():
    with penstock.connect() as opened:
        opened.execute("CreateTable", create_request(Table.of(Plain, name="odd"), "odd"))
        yield opened


def test_formats_are_stored_as_they_say(odd):
    one = Odd("a", AT, date(2026, 11, 18), (1, 2), timedelta(days=-1, microseconds=5))
    odd.table(Odd).put(one)
    assert odd.table(Odd).get("a") == one
    raw = odd.table("odd").get({"id": "a"})
    assert (raw["at_ms"], raw["day"], raw["pair"]) == (1794985883456, "18.11.2026", [1, 2])
    assert str(raw["took"]) == "-86399.999995"


def test_frozen_classes_and_classes_with_slots_are_read_and_written(odd):
    for one in (Frozen("f"), Frozen("g", "x")):
        odd.table(Frozen).put(one)
        assert odd.table(Frozen).get(one) == one
    odd.table(Slotted, name="odd").put(Slotted("s", 3))
    assert odd.table(Slotted, name="odd").get("s") == Slotted("s", 3)


def test_a_plain_dataclass_has_keys_and_indexes_by_annotated(odd):
    plain = odd.table(Plain, name="odd")
    plain.put(Plain("p", 4))
    assert list(plain.query(size=4)) == [Plain("p", 4)]
    assert odd.table("odd").get({"id": "p"}) == {"id": "p", "s": 4}


def test_an_instance_that_lost_an_attribute_is_refused(odd):
    del (broken := Plain("p", 4)).size
    with pytest.raises(penstock.PenstockError, match="size"):
        odd.table(Plain, name="odd").put(broken)
