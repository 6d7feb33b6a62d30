"""Orphans: tables with our tags that no definition names. They are told, and never touched.

A table is ours if it has the standard tags of the naming: `ManagedBy`, `Application` and `Environment`. Tables of other
applications and environments are none of these definitions' business.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from penstock.client.database import Database
from penstock.errors import PenstockError, ResourceNotFoundException, UnknownOperationException
from penstock.tables.definitions.definition import Naming
from penstock.tables.plan.survey import WORKERS, side_by_side

MOST_IN_PLAN: Final = 100
"""Tables whose tags a plan reads: DynamoDB takes about ten such calls a second of an account."""

_COMPARED: Final = ("Application", "Environment", "ManagedBy")


@dataclass(frozen=True, slots=True)
class Orphan:
    name: str
    created_at: str
    """When Penstock made it; '' if the tag is gone."""


@dataclass(frozen=True, slots=True)
class Orphans:
    tables: tuple[Orphan, ...] = ()
    unread: str = ""
    """Why they are not known; '' if they are."""
    left: int = 0
    """Tables that were not looked at, because there are too many."""

    @property
    def text(self) -> str:
        """One line for a plan; '' if there is nothing to say."""
        if self.unread:
            return f"Orphans: not known: {self.unread}"
        more = f" {self.left:,} more tables were not looked at: `penstock tables orphans` does." if self.left else ""
        if not self.tables:
            return f"Orphans: none found.{more}" if more else ""
        names = ", ".join(one.name for one in self.tables)
        return f"Orphans, which have our tags and no definition, and are left alone: {names}.{more}"

    def form(self) -> dict[str, Any]:
        return {
            "orphans": [{"table": one.name, "created_at": one.created_at or None} for one in self.tables],
            "orphans_unknown": self.unread or None,
            "tables_not_looked_at": self.left,
        }


def find_orphans(db: Database, naming: Naming, known: Collection[str], *, most: int | None = None) -> Orphans:
    """Looks at the tags of every table whose name begins as the naming's do, and that is not `known` by its full name.

    Never raises for what may not be read: a plan is worth having without it.
    """
    try:
        names = [name for name in db.tables() if name.startswith(naming.start) and name not in known]
        looked_at = names if most is None else names[:most]
        start = _arn_start(db, looked_at)
        found = side_by_side(lambda name: _orphan(db, start, name, naming), looked_at, WORKERS)
    except UnknownOperationException:
        return Orphans(unread="this endpoint has no tags")
    except PenstockError as error:
        return Orphans(unread=str(error))
    return Orphans(tuple(one for one in found if one is not None), left=len(names) - len(looked_at))


def _arn_start(db: Database, names: list[str]) -> str:
    """What the ARN of each table begins with; one of them tells."""
    for name in names:
        try:
            arn: str = db.execute("DescribeTable", {"TableName": name})["Table"]["TableArn"]
        except ResourceNotFoundException:
            continue  # deleted meanwhile
        return arn.removesuffix(name)
    return ""


def _orphan(db: Database, start: str, name: str, naming: Naming) -> Orphan | None:
    tags: dict[str, str] = {}
    request = {"ResourceArn": start + name}
    while True:
        try:
            answer = db.execute("ListTagsOfResource", request)
        except ResourceNotFoundException:
            return None
        tags |= {one["Key"]: one["Value"] for one in answer.get("Tags", ())}
        if not answer.get("NextToken"):
            break
        request["NextToken"] = answer["NextToken"]
    ours = naming.tags("")
    if any(tags.get(key) != ours[key] for key in _COMPARED):
        return None
    return Orphan(name, tags.get("CreatedAt", ""))
