"""The same laws on the embedded engine: requests made of changes, and descriptions read back."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from table_strategies import tables

from penstock.clock import ManualClock
from penstock.engine import Engine
from penstock.tables.apply.requests import requests_of
from penstock.tables.definitions.aws_shapes import facts_of, from_description
from penstock.tables.definitions.definition import Table
from penstock.tables.plan.changes import ReplaceTable
from penstock.tables.plan.plan import diff

KEYS = ("id:S", "sort:N")


class Place:
    """One table on an engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def describe(self, name: str) -> dict[str, Any]:
        return self.engine.execute("DescribeTable", {"TableName": name})

    def live(self, name: str) -> Table:
        description = self.describe(name)
        arn = facts_of(description).arn
        return from_description(
            description,
            ttl=self.engine.execute("DescribeTimeToLive", {"TableName": name}),
            pitr=self.engine.execute("DescribeContinuousBackups", {"TableName": name}),
            tags=self.engine.execute("ListTagsOfResource", {"ResourceArn": arn})["Tags"],
        )

    def apply(self, live: Table | None, wanted: Table) -> None:
        arn = "" if live is None else facts_of(self.describe(live.name)).arn
        for change in diff(live, wanted):
            for request in requests_of(change, wanted.name, arn=arn):
                self.engine.execute(request.operation, dict(request.body))


@settings(max_examples=40)
@given(tables(keys=KEYS), tables(keys=KEYS))
def test_the_engine_takes_every_change_and_then_nothing_differs(first: Table, second: Table) -> None:
    engine = Engine(clock=ManualClock())
    try:
        place = Place(engine)
        place.apply(None, first)
        live = place.live(first.name)
        assert diff(live, first) == ()
        if any(isinstance(change, ReplaceTable) for change in diff(live, second)):
            return
        place.apply(live, second)
        assert diff(place.live(second.name), second) == ()
    finally:
        engine.close()
