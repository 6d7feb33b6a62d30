"""A table as it stands in a database: read with all its settings, made, waited for, and put right."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.client.database import Database
from penstock.errors import (
    ContinuousBackupsUnavailableException,
    LimitExceededException,
    PenstockError,
    ResourceInUseException,
    ResourceNotFoundException,
)
from penstock.tables import shapes
from penstock.tables.changes import Change, CreateTable
from penstock.tables.definitions import Table
from penstock.tables.diff import diff
from penstock.tables.requests import Request, requests_of
from penstock.tables.shapes import Facts

WAIT_SECONDS = 3600.0
"""How long a table may take to become ACTIVE. A restore of a large one takes hours: it has its own."""

_POLL_SECONDS = (0.02, 5.0)  # the first wait and the longest: a table of a test is ready at once, AWS's in seconds

Tell = Callable[[str], object]


def _silent(text: str) -> None:
    del text


@dataclass(frozen=True, slots=True)
class Standing:
    """A table's definition as it was found, and the facts beside it."""

    table: Table
    facts: Facts
    stream_arn: str | None


def observe(db: Database, name: str) -> Standing | None:
    """The table with its TTL, recovery and tags; None if there is none of this name."""
    try:
        description = db.execute("DescribeTable", {"TableName": name})
    except ResourceNotFoundException:
        return None
    facts = shapes.facts_of(description)
    table = shapes.from_description(
        description,
        ttl=db.execute("DescribeTimeToLive", {"TableName": name}),
        pitr=db.execute("DescribeContinuousBackups", {"TableName": name}),
        tags=_tags(db, facts.arn),
    )
    arn = description["Table"].get("LatestStreamArn")
    return Standing(table, facts, arn if table.stream else None)


def _tags(db: Database, arn: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    request: dict[str, Any] = {"ResourceArn": arn}
    while True:
        answer = db.execute("ListTagsOfResource", request)
        found += answer.get("Tags", [])
        if not answer.get("NextToken"):
            return found
        request["NextToken"] = answer["NextToken"]


def required(db: Database, name: str) -> Standing:
    """`observe`, for a table that must be there."""
    found = observe(db, name)
    if found is None:
        raise missing(db, name)
    return found


def missing(db: Database, name: str) -> PenstockError:
    """That there is no such table, and which there are."""
    names = db.tables()
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names[:3]
    told = f"There is {', '.join(near)}." if near else "It has no tables."
    return PenstockError(f"There is no table {name} in {db.name}. {told}")


def wait_until_active(
    db: Database,
    name: str,
    tell: Tell = _silent,
    *,
    seconds: float = WAIT_SECONDS,
    sleep: Callable[[float], object] = time.sleep,
) -> Facts:
    """Returns when the table and all its indexes are ACTIVE; raises PenstockError after so many seconds."""
    pause, ends_at = _POLL_SECONDS[0], time.monotonic() + seconds
    while True:
        facts = shapes.facts_of(db.execute("DescribeTable", {"TableName": name}))
        if facts.status == "ACTIVE" and not facts.filling and not facts.leaving:
            return facts
        tell(f"{name} is {facts.status}" + (f", filling {', '.join(facts.filling)}" if facts.filling else ""))
        if time.monotonic() > ends_at:
            raise PenstockError(
                f"{name} is still {facts.status} after {seconds:.0f} s. Run the command again to wait on."
            )
        sleep(pause)
        pause = min(pause * 1.5, _POLL_SECONDS[1])


def wait_until_gone(db: Database, name: str, *, seconds: float = WAIT_SECONDS) -> None:
    """Returns when there is no such table."""
    pause, ends_at = _POLL_SECONDS[0], time.monotonic() + seconds
    while observe_status(db, name) is not None:
        if time.monotonic() > ends_at:
            raise PenstockError(f"{name} is still there after {seconds:.0f} s. Run it again to wait on.")
        time.sleep(pause)
        pause = min(pause * 1.5, _POLL_SECONDS[1])


def observe_status(db: Database, name: str) -> str | None:
    try:
        return shapes.facts_of(db.execute("DescribeTable", {"TableName": name})).status
    except ResourceNotFoundException:
        return None


def make(db: Database, table: Table, name: str, tell: Tell = _silent) -> None:
    """Makes the table of a definition with all its settings, and waits for it. One that is there is left as it is."""
    if observe(db, name) is None:
        carry_out(db, CreateTable(table), name, tell)
    else:
        wait_until_active(db, name, tell)


def put_right(
    db: Database, name: str, wanted: Table, tell: Tell = _silent, *, seconds: float = WAIT_SECONDS
) -> list[Change]:
    """Makes every change that `wanted` needs, one at a time, and compares again; what is left differing.

    A table that would have to be replaced is not touched: the change is given back.
    """
    wait_until_active(db, name, tell, seconds=seconds)
    live = required(db, name).table
    for change in diff(live, wanted.renamed(name)):
        if type(change).__name__ in ("ReplaceTable", "DeleteTable"):
            return [change]
        carry_out(db, change, name, tell)
    return list(diff(required(db, name).table, wanted.renamed(name)))


def carry_out(db: Database, change: Change, name: str, tell: Tell = _silent) -> None:
    """The calls of one change, each when the table is ready for it."""
    arn = (
        "" if isinstance(change, CreateTable) else shapes.facts_of(db.execute("DescribeTable", {"TableName": name})).arn
    )
    tell(f"{type(change).__name__} {name}")
    for request in requests_of(change, name, arn=arn):
        _insistently(db, request)
        wait_until_active(db, name, tell)


def _arn(db: Database, name: str) -> str:
    return shapes.facts_of(db.execute("DescribeTable", {"TableName": name})).arn


_PASSING = (ResourceInUseException, ContinuousBackupsUnavailableException, LimitExceededException)
"""What DynamoDB answers while another change is under way, or recovery of a new table is not yet at hand."""


def _insistently(db: Database, request: Request) -> None:
    pause, ends_at = _POLL_SECONDS[0], time.monotonic() + WAIT_SECONDS
    while True:
        try:
            db.execute(request.operation, dict(request.body))
            return
        except _PASSING:
            if request.operation in ("CreateTable", "DeleteTable") or time.monotonic() > ends_at:
                raise
            time.sleep(pause)
            pause = min(pause * 1.5, _POLL_SECONDS[1])
