"""Tables as they are, looked at side by side; and a fleet beside what it should be: what a plan is made from."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

from penstock.client.database import Database
from penstock.errors import (
    AccessDeniedException,
    PenstockError,
    PolicyNotFoundException,
    ResourceNotFoundException,
    TableNotFoundException,
    UnknownOperationException,
)
from penstock.tables.definitions import aws_shapes
from penstock.tables.definitions.aws_shapes import Facts
from penstock.tables.definitions.definition import Index, Naming, Table, VectorIndex, check_names
from penstock.tables.definitions.own_tables import REKEY_TABLE
from penstock.tables.definitions.problems import DefinitionError, check, problems_of
from penstock.tables.plan.changes import (
    Change,
    ClearStream,
    DropIndex,
    SetStream,
    UpdateThroughput,
    describe,
    setting_of,
)
from penstock.tables.plan.failures import Failure, TablesUnreadable, failure_of
from penstock.tables.plan.plan import Plan, TablePlan, plan_table

Json = dict[str, Any]
T = TypeVar("T")

PolicyReading = Literal["", "ask", "need"]
"""Whether a resource policy is not read, read if that is allowed, or necessary."""

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
    absent: frozenset[str] = frozenset()
    """Settings that its description does not have at all (`absent_settings`)."""
    tells_all: bool = True
    """Whether a setting that is absent is off. Endpoints that only look like DynamoDB forget what they take."""
    taken: frozenset[str] = frozenset()
    """Changes, in words, that this endpoint has taken and does not tell: they are not planned again."""

    @property
    def in_motion(self) -> bool:
        """Whether something is under way that one can wait for."""
        return self.facts.status != "ACTIVE" or bool(self.facts.filling or self.facts.leaving)


def inspect(db: Database, name: str, *, settings: bool = True, policy: bool = False) -> Live | None:
    """The table of this full name, or None if there is none.

    `settings` are TTL, point-in-time recovery and tags, which have calls of their own; without them, they are None.
    So is the resource policy unless it is asked for (`policy`).
    """
    return _TableReader(db, name, "need" if policy else "").run(settings=settings)


def require_table(db: Database, name: str, *, settings: bool = True) -> Live:
    """The same for a table that must be there; raises PenstockError, with names that are near."""
    found = inspect(db, name, settings=settings)
    if found is not None:
        return found
    names: list[str] = []
    with suppress(PenstockError):  # names that are near are no reason to need more rights
        names = db.tables()
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names[:3]
    hint = f"There is {', '.join(near)}." if near else "Check the name, the region and the database."
    raise PenstockError(f"There is no table {name} in {db.name}. {hint}")


def inspect_all(
    db: Database,
    names: Iterable[str],
    *,
    settings: bool = True,
    workers: int = WORKERS,
    policy: str = "",
    with_policies: Callable[[str], PolicyReading] = lambda name: "",
) -> dict[str, Live | Failure | None]:
    """The same for many tables, side by side; for one that could not be looked at, why.

    `policy` is the command that writes the IAM policy, `with_policies` says which resource policies are read: those
    that are only asked for may be forbidden, and are unsupported then.
    """
    wanted = list(dict.fromkeys(names))

    def one(name: str) -> Live | Failure | None:
        look = _TableReader(db, name, with_policies(name))
        try:
            return look.run(settings=settings)
        except PenstockError as error:
            return failure_of(name, _LOOKING, error, operation=look.operation, policy=policy)

    return dict(zip(wanted, side_by_side(one, wanted, workers), strict=True))


def inspect_every(
    db: Database,
    names: Iterable[str],
    *,
    settings: bool = True,
    policy: str = "",
    with_policies: Callable[[str], PolicyReading] = lambda name: "",
) -> dict[str, Live | None]:
    """The same, all or nothing: raises TablesUnreadable with every failure."""
    found = inspect_all(db, names, settings=settings, policy=policy, with_policies=with_policies)
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


class _TableReader:
    """One table's describes; `operation` is the one that was asked last, for whoever must tell of a failure."""

    def __init__(self, db: Database, name: str, policy: PolicyReading = "") -> None:
        self._db, self._name, self._reading = db, name, policy
        self._unsupported: set[str] = set()
        self.operation = ""

    def run(self, *, settings: bool) -> Live | None:
        try:
            description = self._ask("DescribeTable")
        except ResourceNotFoundException:
            return None
        facts = aws_shapes.facts_of(description)
        try:
            return self._read_settings(description, facts, settings=settings)
        except ResourceNotFoundException:
            return None  # deleted meanwhile

    def _read_settings(self, description: Json, facts: Facts, *, settings: bool) -> Live:
        if facts.status in NOT_YET or not settings:
            # Nobody can have set them yet.
            unset: Json = {"ttl": {}, "pitr": {}, "tags": ()} if settings else {}
            return Live(aws_shapes.from_description(description, **unset), facts)
        table = aws_shapes.from_description(
            description,
            ttl=self._setting("ttl", "DescribeTimeToLive"),
            pitr=self._setting("pitr", "DescribeContinuousBackups"),
            tags=self._tags(facts.arn),
            policy=self._policy(facts.arn) if self._reading else None,
        )
        forgotten = _FORGOTTEN if facts.arn.startswith(_LOCAL) else frozenset[str]()
        # DynamoDB gives every table an id.
        tells_all = self._db.capabilities.tells_settings and "TableId" in description["Table"]
        absent = aws_shapes.absent_settings(description)
        return Live(table, facts, forgotten | self._unsupported, absent, tells_all)

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

    def _policy(self, arn: str) -> str | None:
        try:
            return str(self._ask("GetResourcePolicy", {"ResourceArn": arn}).get("Policy") or "")
        except PolicyNotFoundException:
            return ""
        except AccessDeniedException:
            if self._reading == "need":
                raise
        except UnknownOperationException:
            pass
        self._unsupported.add("resource_policy")
        return None

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


@dataclass(frozen=True, slots=True)
class TableSurvey:
    """One table under its full name: as it was found, and what would be done to it."""

    name: str
    wanted: Table | None
    live: Live | None
    plan: TablePlan
    note: str = ""
    """What differs from the definition and is left as it is, and why."""

    @property
    def has_work(self) -> bool:
        """Whether there is something to change, or something under way to wait for."""
        return bool(self.plan.changes) or (self.live is not None and self.live.in_motion)


@dataclass(frozen=True)
class Survey:
    tables: tuple[TableSurvey, ...]
    naming: Naming

    @cached_property
    def plan(self) -> Plan:
        return Plan(tuple(one.plan for one in self.tables))

    @cached_property
    def with_work(self) -> tuple[TableSurvey, ...]:
        """Tables that need a change, or that are in motion and waited for."""
        return tuple(one for one in self.tables if one.has_work)

    @property
    def under_way(self) -> tuple[TableSurvey, ...]:
        """Tables that are in motion by themselves: an index that is being built, a table that is being made."""
        return tuple(one for one in self.tables if one.live is not None and one.live.in_motion)

    @property
    def not_compared(self) -> tuple[str, ...]:
        """Settings that this endpoint does not have, or does not tell, and that a definition has."""
        lives = ((one.wanted, one.live) for one in self.tables if one.wanted is not None and one.live is not None)
        found = {name for wanted, live in lives for name in live.unsupported if getattr(wanted, name) is not None}
        return tuple(sorted(found))

    @property
    def untold(self) -> tuple[str, ...]:
        """`jobs (~ table class STANDARD)`: what this endpoint was sent, has taken, and does not tell."""
        return tuple(
            f"{one.name} ({', '.join(sorted(one.live.taken))})" for one in self.tables if one.live and one.live.taken
        )

    @property
    def ignored(self) -> tuple[str, ...]:
        """`jobs (billing, ttl)`: what a definition leaves to others, or does not tell."""
        return tuple(filter(None, map(_ignored, self.tables)))


def _ignored(one: TableSurvey) -> str:
    if one.wanted is None or one.live is None or not one.wanted.ignore:
        return ""
    return f"{one.name} ({', '.join(one.wanted.ignore)})"


def survey(db: Database | None, tables: Iterable[Table], naming: Naming, *, policy: str = "") -> Survey:
    """Looks once at every table that is defined, side by side. Changes nothing. Without a database, no table exists.

    Raises DefinitionError for names that cannot be, and TablesUnreadable with every table that could not be looked at.
    """
    wanted = {naming.full_name(table.name): table for table in tables}
    check_names(wanted.values(), naming)
    found: dict[str, Live | None] = {}
    if db is not None:
        with_policy = {name for name, table in wanted.items() if table.resource_policy is not None}
        found = inspect_every(
            db, wanted, policy=policy, with_policies=lambda name: "need" if name in with_policy else ""
        )
    surveyed = [survey_table(name, table, found.get(name)) for name, table in wanted.items()]
    if db is not None:
        surveyed = [_keep_rekey_stream(db, _keep_replicas(one), policy) for one in surveyed]
    return Survey(tuple(surveyed), naming)


def keep_added_indexes(survey: Survey, drop: Iterable[str] = ()) -> Survey:
    """The survey for one who applies it: an index that no definition has stays, unless `drop` names it.

    Somebody added it to the live table, and queries may stand on it. A name is `TABLE.INDEX`, with the full name of
    the table or its definition's. Raises PenstockError where the definition leaves no room for such an index.
    """
    named = frozenset(drop)
    return replace(survey, tables=tuple(_keep_added(one, named) for one in survey.tables))


def _keep_added(table: TableSurvey, named: frozenset[str]) -> TableSurvey:
    wanted, live = table.wanted, table.live
    if wanted is None or live is None:
        return table
    added = [one.index for one in table.plan.changes if isinstance(one, DropIndex) and not one.replaced]
    kept = [index for index in added if named.isdisjoint({f"{table.name}.{index.name}", f"{wanted.name}.{index.name}"})]
    if not kept:
        return table
    options = " ".join(f"--drop-index {wanted.name}.{index.name}" for index in kept)
    names = " and ".join(index.name for index in kept)
    stays = "stays, though no definition has it" if len(kept) == 1 else "stay, though no definition has them"
    is_stream_changed = any(isinstance(one, ClearStream | SetStream) for one in table.plan.changes)
    stream = wanted.stream if is_stream_changed else live.table.stream  # a rekey may keep it
    try:
        # With them in the definition, capacity is planned for them too.
        whole = wanted.replace(
            stream=stream,
            indexes=(*wanted.indexes, *(_fitted(index, wanted) for index in kept if isinstance(index, Index))),
            vector_indexes=(*wanted.vector_indexes, *(index for index in kept if isinstance(index, VectorIndex))),
        )
        if not any(problems_of(live.table)):  # an account's own quotas may be higher
            check(whole)
    except DefinitionError as error:
        reasons = " ".join(str(one) for one in error.problems)
        raise PenstockError(
            f"{table.name}: index {names} {stays}, and the definition leaves no room for that: {reasons} "
            f"To drop what stays: {options}"
        ) from error
    note = "; ".join(filter(None, (table.note, f"index {names} {stays}; {options} drops it")))
    return replace(survey_table(table.name, whole, live), wanted=wanted, note=note)


def _fitted(index: Index, wanted: Table) -> Index:
    """A live index as it would be written down beside the table's own billing."""
    if wanted.billing == "on-demand":
        return replace(index, throughput=None)
    return replace(index, on_demand_max=None)


def survey_table(name: str, wanted: Table, live: Live | None) -> TableSurvey:
    """A table that is being deleted is one that is not there: it is made again when it is gone."""
    if live is None or live.facts.status == "DELETING":
        return TableSurvey(name, wanted, live, plan_table(name, None, wanted))
    plan = plan_table(name, live.table, _comparable(wanted, live), live.facts.items)
    left = tuple(one for one in plan.changes if setting_of(one) not in live.absent or describe(one) not in live.taken)
    return TableSurvey(name, wanted, live, replace(plan, changes=left))


def _keep_replicas(table: TableSurvey) -> TableSurvey:
    """Replication reads the stream: what would end it is not planned. And a hint where autoscaling may be at work."""
    wanted, live = table.wanted, table.live
    if wanted is None or live is None:
        return table
    regions = ", ".join(live.facts.replicas)
    if regions and any(_ends_stream(one) for one in table.plan.changes):
        kept = survey_table(table.name, wanted.replace(stream=live.table.stream), live)
        table = replace(kept, wanted=wanted, note=f"its stream stays as it is: its replicas in {regions} need it")
    if live.facts.rescaled and any(isinstance(one, UpdateThroughput) for one in table.plan.changes):
        hint = 'its capacity was changed since it was made: if autoscaling does that, define ignore=["billing"]'
        table = replace(table, note="; ".join(filter(None, (table.note, hint))))
    return table


def _keep_rekey_stream(db: Database, table: TableSurvey, policy: str) -> TableSurvey:
    """A rekey that is not finished reads its source table's stream: without it, what it has done is lost.

    The table of the rekeys is read only for a table whose stream would change.
    """
    wanted, live = table.wanted, table.live
    if wanted is None or live is None or not any(_ends_stream(one) for one in table.plan.changes):
        return table
    request = {"TableName": REKEY_TABLE, "Key": {"source": {"S": table.name}}, "ConsistentRead": True}
    try:
        rekey = db.execute("GetItem", request).get("Item")
    except ResourceNotFoundException:
        return table
    except PenstockError as error:
        doing = "looking whether a rekey reads its stream"
        raise TablesUnreadable([failure_of(table.name, doing, error, operation="GetItem", policy=policy)]) from error
    if rekey is None or rekey["phase"]["S"] == "confirmed":
        return table
    kept = survey_table(table.name, wanted.replace(stream=live.table.stream), live)
    note = "its stream stays as it is until the rekey that reads it is confirmed or rolled back"
    return replace(kept, wanted=wanted, note="; ".join(filter(None, (table.note, note))))


def _ends_stream(change: Change) -> bool:
    return isinstance(change, ClearStream) or (isinstance(change, SetStream) and change.replaces is not None)


def _comparable(wanted: Table, live: Live) -> Table:
    """What an endpoint does not have is not compared: it would differ for ever."""
    left: dict[str, Any] = dict.fromkeys(live.unsupported)
    if "warm" in left:
        return wanted.replace(**left, indexes=tuple(replace(index, warm=None) for index in wanted.indexes))
    return wanted.replace(**left)


def survey_to_delete(db: Database, names: Iterable[str], naming: Naming, *, policy: str = "") -> Survey:
    """The same for tables that are to go, by their full names: only what DescribeTable tells is asked."""
    found = inspect_every(db, names, settings=False, policy=policy)
    return Survey(tuple(_survey_deletion(name, live) for name, live in found.items()), naming)


def _survey_deletion(name: str, live: Live | None) -> TableSurvey:
    gone = live is None or live.facts.status == "DELETING"
    table = None if live is None or gone else live.table
    return TableSurvey(name, None, live, plan_table(name, table, None, 0 if live is None else live.facts.items))
