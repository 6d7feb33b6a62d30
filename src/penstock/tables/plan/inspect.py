"""Tables as they are: one look at each, several side by side."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.client.database import Database
from penstock.errors import PenstockError, ResourceNotFoundException, TableNotFoundException, UnknownOperationException
from penstock.tables.apply.failures import Failure, TablesUnreadable, failure_of
from penstock.tables.definitions import aws_shapes
from penstock.tables.definitions.aws_shapes import Facts
from penstock.tables.definitions.definition import Table

Json = dict[str, Any]
T = TypeVar("T")

WORKERS = 16
"""Tables looked at side by side: a fleet of 13 is one round, and a connection each is not too many."""

NOT_YET = frozenset({"CREATING", "DELETING"})
"""States in which a table has no settings to ask for."""

_LOCAL = "arn:aws:dynamodb:ddblocal:"
_FORGOTTEN = frozenset({"sse", "table_class", "warm"})
"""What DynamoDB Local, which is known by its ARNs, takes without a word and never tells again."""

_LOOKING = "looking at it"


@dataclass(frozen=True, slots=True)
class Live:
    """A table as it was found under its full name, and its state."""

    table: Table
    facts: Facts
    unsupported: frozenset[str] = frozenset()
    """Members of a definition that this endpoint does not have, or does not tell."""

    @property
    def in_motion(self) -> bool:
        """Whether something is under way that one can wait for."""
        return self.facts.status != "ACTIVE" or bool(self.facts.filling or self.facts.leaving)


def inspect(db: Database, name: str, *, settings: bool = True) -> Live | None:
    """The table of this full name, or None if there is none.

    `settings` are TTL, point-in-time recovery and tags, which have calls of their own; without them, they are None.
    """
    return _Look(db, name).run(settings=settings)


def required(db: Database, name: str, *, settings: bool = True) -> Live:
    """The same for a table that must be there; raises PenstockError, with names that are near."""
    found = inspect(db, name, settings=settings)
    if found is not None:
        return found
    names: list[str] = []
    with suppress(PenstockError):  # names that are near are no reason to need more rights
        names = db.tables()
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names[:3]
    told = f"There is {', '.join(near)}." if near else "Check the name, the region and the database."
    raise PenstockError(f"There is no table {name} in {db.name}. {told}")


def inspect_all(
    db: Database, names: Iterable[str], *, settings: bool = True, workers: int = WORKERS, policy: str = ""
) -> dict[str, Live | Failure | None]:
    """The same for many tables, side by side; for one that could not be looked at, why."""
    wanted = list(dict.fromkeys(names))

    def one(name: str) -> Live | Failure | None:
        look = _Look(db, name)
        try:
            return look.run(settings=settings)
        except PenstockError as error:
            return failure_of(name, _LOOKING, error, operation=look.operation, policy=policy)

    return dict(zip(wanted, side_by_side(one, wanted, workers), strict=True))


def inspect_every(
    db: Database, names: Iterable[str], *, settings: bool = True, policy: str = ""
) -> dict[str, Live | None]:
    """The same, all or nothing: raises TablesUnreadable with every failure."""
    found = inspect_all(db, names, settings=settings, policy=policy)
    failures = [one for one in found.values() if isinstance(one, Failure)]
    if failures:
        raise TablesUnreadable(failures)
    return {name: one for name, one in found.items() if not isinstance(one, Failure)}


def side_by_side(work: Callable[[str], T], names: list[str], workers: int) -> list[T]:
    """What `work` gives for each name, in their order."""
    if len(names) <= 1:
        return [work(name) for name in names]
    with ThreadPoolExecutor(min(workers, len(names)), thread_name_prefix="penstock-look") as pool:
        return list(pool.map(work, names))


class _Look:
    """One table's describes; `operation` is the one that was asked last, for whoever must tell of a failure."""

    def __init__(self, db: Database, name: str) -> None:
        self._db, self._name = db, name
        self._unsupported: set[str] = set()
        self.operation = ""

    def run(self, *, settings: bool) -> Live | None:
        try:
            description = self._ask("DescribeTable")
        except ResourceNotFoundException:
            return None
        facts = aws_shapes.facts_of(description)
        try:
            return self._seen(description, facts, settings=settings)
        except ResourceNotFoundException:
            return None  # deleted meanwhile

    def _seen(self, description: Json, facts: Facts, *, settings: bool) -> Live:
        if facts.status in NOT_YET or not settings:
            # Nobody can have set them yet.
            unset: Json = {"ttl": {}, "pitr": {}, "tags": ()} if settings else {}
            return Live(aws_shapes.from_description(description, **unset), facts)
        table = aws_shapes.from_description(
            description,
            ttl=self._setting("ttl", "DescribeTimeToLive"),
            pitr=self._setting("pitr", "DescribeContinuousBackups"),
            tags=self._tags(facts.arn),
        )
        forgotten = _FORGOTTEN if facts.arn.startswith(_LOCAL) else frozenset[str]()
        return Live(table, facts, forgotten | self._unsupported)

    def _ask(self, operation: str, body: Json | None = None) -> Json:
        self.operation = operation
        return self._db.execute(operation, body or {"TableName": self._name})

    def _setting(self, member: str, operation: str) -> Json | None:
        try:
            return self._ask(operation)
        except UnknownOperationException:
            self._unsupported.add(member)
            return None
        except TableNotFoundException:
            return {}  # backups hear of a new table later than others

    def _tags(self, arn: str) -> list[dict[str, str]] | None:
        tags: list[dict[str, str]] = []
        body: Json = {"ResourceArn": arn}
        try:
            while True:
                answer = self._ask("ListTagsOfResource", body)
                tags += answer.get("Tags", ())
                if not answer.get("NextToken"):
                    return tags
                body = {**body, "NextToken": answer["NextToken"]}
        except UnknownOperationException:
            self._unsupported.add("tags")
            return None
