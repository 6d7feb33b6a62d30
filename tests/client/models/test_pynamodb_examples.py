"""Models in the shapes of PynamoDB's own examples: short names, maps in maps, indexes; read and written by both.

The examples themselves were run against `penstock serve`, and their tables read and written by such classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pynamodb.attributes import ListAttribute, MapAttribute, NumberAttribute, UnicodeAttribute, UTCDateTimeAttribute
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex, LocalSecondaryIndex
from pynamodb.models import Model

import penstock
from penstock import Attr, attr, item
from penstock.client.database import Database
from penstock.tables.apply.apply import make

PYNAMODB_TIME = "%Y-%m-%dT%H:%M:%S.%f%z"
MOMENT = datetime(2026, 11, 18, 7, 11, 23, 45, tzinfo=UTC)


class TheirPoint(MapAttribute[str, Any]):
    lat = NumberAttribute(attr_name="latitude")
    name = UnicodeAttribute()


class TheirDesk(MapAttribute[str, Any]):
    number = NumberAttribute()
    place = TheirPoint()


class TheirOffice(Model):
    class Meta:
        table_name = "offices"

    office_id = NumberAttribute(hash_key=True, attr_name="id")
    address = TheirPoint()
    desks = ListAttribute(of=TheirDesk)


class TheirOpponents(LocalSecondaryIndex[Any]):
    class Meta:
        index_name = "by-winner"
        projection = AllProjection()

    player = UnicodeAttribute(hash_key=True)
    winner = UnicodeAttribute(range_key=True)


class TheirWins(GlobalSecondaryIndex[Any]):
    class Meta:
        index_name = "wins"
        projection = AllProjection()

    winner = UnicodeAttribute(hash_key=True)
    at = UTCDateTimeAttribute(range_key=True)


class TheirGame(Model):
    class Meta:
        table_name = "games"

    player = UnicodeAttribute(hash_key=True)
    at = UTCDateTimeAttribute(range_key=True)
    winner = UnicodeAttribute()
    loser = UnicodeAttribute(null=True)
    opponents = TheirOpponents()
    wins = TheirWins()


@item("points")
class Point:
    lat: Attr[float] = attr(key=True, name="latitude")
    name: Attr[str]


@item("desks")
class Desk:
    number: Attr[int] = attr(key=True)
    place: Attr[Point]


@item("offices")
class Office:
    office_id: Attr[int] = attr(key=True, name="id")
    address: Attr[Point]
    desks: Attr[list[Desk]]


@item("games")
class Game:
    player: Attr[str] = attr(key=True)
    at: Attr[datetime] = attr(sort=True, format=PYNAMODB_TIME, index_sort="wins")
    winner: Attr[str] = attr(index="wins", index_sort="by-winner")
    loser: Attr[str | None] = attr(default=None)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """Tables made of the classes; PynamoDB's connections are answered by the same engine."""
    with penstock.connect() as db:
        client = penstock.boto3_client(db)
        for theirs, ours in ((TheirOffice, Office), (TheirGame, Game)):
            make(db, penstock.Table.of(ours), theirs.Meta.table_name)
            theirs._connection = None
            monkeypatch.setattr(type(theirs._get_connection().connection), "client", client)
        yield db
        for theirs in (TheirOffice, TheirGame):
            theirs._connection = None


def test_maps_in_lists_and_short_names_go_both_ways(shared: Database) -> None:
    place = TheirPoint(lat=47.5, name="Bern")
    TheirOffice(1, address=place, desks=[TheirDesk(number=7, place=place)]).save()
    offices = shared.table(Office)
    expected = Office(1, Point(47.5, "Bern"), [Desk(7, Point(47.5, "Bern"))])
    assert offices.get(1) == expected
    expected.office_id = 2
    offices.put(expected)
    theirs = TheirOffice.get(2)
    assert (theirs.address.lat, theirs.desks[0].number, theirs.desks[0].place.name) == (47.5, 7, "Bern")
    stored = [dict(one) for one in shared.table("offices").scan()]
    assert len(stored) == 2 and {**stored[0], "id": 0} == {**stored[1], "id": 0}


def test_a_map_in_a_map_is_changed_and_found_by_its_attributes(shared: Database) -> None:
    place = TheirPoint(lat=47.5, name="Bern")
    TheirOffice(1, address=place, desks=[TheirDesk(number=7, place=place)]).save()
    offices = shared.table(Office)
    offices.update(1, Office.address["latitude"].set(46.9), Office.desks[0]["place"]["name"].set("Thun"))
    theirs = TheirOffice.get(1)
    assert (theirs.address.lat, theirs.address.name, theirs.desks[0].place.name) == (46.9, "Bern", "Thun")
    assert [one.office_id for one in offices.scan(filter=Office.address["latitude"] < 47)] == [1]
    offices.update(1, Office.desks[0]["number"].add(1), if_=Office.desks[0]["place"]["name"] == "Thun")
    assert TheirOffice.get(1).desks[0].number == 8


def test_indexes_find_the_items_of_both(shared: Database) -> None:
    TheirGame("ada", MOMENT, winner="bob").save()
    games = shared.table(Game)
    games.put(Game("eve", MOMENT, "bob", loser="eve"))
    assert {one.player for one in games.query(Game.winner == "bob", Game.at >= MOMENT)} == {"ada", "eve"}
    assert {one.player for one in TheirGame.wins.query("bob", TheirGame.at >= MOMENT)} == {"ada", "eve"}
    assert [one.at for one in TheirGame.opponents.query("eve")] == [MOMENT]
    assert [one.loser for one in games.query(Game.player == "ada", index="by-winner")] == [None]
