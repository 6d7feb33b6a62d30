"""One table's changes, carried out: a conversation (waiting.py) that can be left and taken up at any point.

1. Before each change the table is looked at: what is under way is waited for, and what is there already is not done
   again. So a run that was cut off is finished by the next one, whoever began it.
2. One change at a time: DynamoDB makes or deletes one index of a table at once.
3. Whatever happens is in the work afterwards: what is done, what was being done, and why it failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from penstock.errors import (
    ContinuousBackupsUnavailableException,
    DynamoDBError,
    PenstockError,
    ResourceInUseException,
    ResourceNotFoundException,
    TableNotFoundException,
    UnknownOperationException,
    ValidationException,
)
from penstock.tables import shapes
from penstock.tables.changes import (
    AddIndex,
    Change,
    ClearTtl,
    CreateTable,
    DeleteTable,
    RemoveTags,
    SetPitr,
    SetTags,
    SetTtl,
)
from penstock.tables.costs import Refused
from penstock.tables.definitions import Table
from penstock.tables.render import describe_whole
from penstock.tables.requests import Request, requests_of
from penstock.tables.states import are_seen, indexes_of, is_done, is_settled, percent_of, status_of, with_definitions
from penstock.tables.survey import Surveyed
from penstock.tables.troubles import Failure, IndexVanished, WaitedTooLong, WrongState, failure_of
from penstock.tables.waiting import Ask, Pace, Pause, Steps, poll_seconds

Json = dict[str, Any]

THROTTLED_ATTEMPTS = 10
"""Then it is no passing throttle but a limit: about two and a half minutes."""

THROTTLED_SECONDS = 1.0
LONGEST_THROTTLED_SECONDS = 30.0

UNSEEN_SECONDS = 60.0
"""How long a table that was just made may still be unknown, and a tag unseen: both are eventually consistent."""

TTL_RETRY_SECONDS = 60.0
"""DynamoDB refuses a second change of TTL for up to an hour."""

_WAITABLE = frozenset({"ACTIVE", "CREATING", "UPDATING", "DELETING"})


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a table is; `percent` is an estimate by the number of items, None where there is none."""

    table: str
    change: str
    status: str
    elapsed_seconds: float
    index: str | None = None
    backfilling: bool = False
    percent: int | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """A change that is done."""

    table: str
    change: str


class TableWork:
    """What is to be done to one table, and what has become of it."""

    def __init__(self, surveyed: Surveyed, pace: Pace, *, tags: Mapping[str, str] | None = None, policy: str = ""):
        self.surveyed = surveyed
        self.name = surveyed.name
        self.done: list[Change] = []
        self.doing = ""
        self.failure: Failure | None = None
        self.notes: list[str] = []
        self.existed = False
        self.ended = False
        self._pace, self._tags, self._policy = pace, tags, policy
        self._operation = ""
        self._started_at = 0.0

    def steps(self) -> Steps[None]:
        """The conversation. It catches its failures: they are in `failure` then."""
        self._started_at = self._pace.clock.now()
        try:
            self._refuse()
            yield from self._changes()
        except PenstockError as error:
            self.failure = failure_of(
                self.name, self.doing, error, operation=self._operation_of(error), policy=self._policy
            )
        self.ended = True

    def _refuse(self) -> None:
        plan = self.surveyed.plan
        for change in plan.changes:
            cost = plan.cost(change)
            if isinstance(cost, Refused):
                raise _RefusedChange(describe_whole(change), cost.instead)

    def _changes(self) -> Steps[None]:
        for change in self.surveyed.plan.changes:
            self.doing = describe_whole(change)
            yield self._progress("begins")
            yield from self._make(change)
            self.done.append(change)
            yield Finished(self.name, self.doing)
        if not self.surveyed.plan.changes:
            self.doing = "waiting for what is under way"
            live = self.surveyed.live
            leaving = live is not None and live.facts.status == "DELETING"
            yield from self._gone() if leaving else self._settled()
        self.doing = ""

    def _make(self, change: Change) -> Steps[None]:
        match change:
            case CreateTable(table):
                yield from self._create(change, table)
            case DeleteTable():
                yield from self._delete(change)
            case SetTtl(attribute, replaces):
                yield from self._set_ttl(attribute, self._request(change), patient=replaces is not None)
            case ClearTtl(attribute):
                yield from self._clear_ttl(attribute, self._request(change))
            case SetPitr():
                yield from self._set_pitr(self._request(change))
            case SetTags() | RemoveTags():
                yield from self._set_tags(change)
            case _:
                yield from self._update(change)

    # ── tables ───────────────────────────────────────────────────────────────────────────────────

    def _create(self, change: CreateTable, table: Table) -> Steps[None]:
        first, *rest = requests_of(change, self.name, tags=self._tags)
        while True:
            try:
                yield from self._ask(first)
                break
            except ResourceInUseException as error:
                description = yield from self._describe()
                if description is not None and status_of(description) == "DELETING":
                    yield from self._gone()
                    continue
                if not error.maybe_ours:
                    self.existed = True
                    self.notes.append("somebody else has made it meanwhile: plan again to compare it")
                    return
                break
        yield from self._settled(unseen_ok=True)
        for request in rest:
            if request.operation == "UpdateTimeToLive":
                self.doing = f"+ ttl {table.ttl}"
                yield from self._set_ttl(table.ttl or "", request, patient=False)
            else:
                self.doing = "+ point-in-time recovery"
                yield from self._set_pitr(request)
        self.doing = describe_whole(change)

    def _delete(self, change: DeleteTable) -> Steps[None]:
        (request,) = requests_of(change, self.name)
        while True:
            try:
                yield from self._ask(request)
                break
            except ResourceNotFoundException:
                return
            except ResourceInUseException:
                description = yield from self._describe()
                if description is None or status_of(description) == "DELETING":
                    break
                yield from self._settled()
                yield from self._pause(0)
        yield from self._gone()

    def _update(self, change: Change) -> Steps[None]:
        """An UpdateTable: one at a time, each waited for before and after."""
        for attempt in count():
            description = yield from self._settled()
            if is_done(change, description):
                return
            try:
                yield from self._ask(with_definitions(self._request(change), change, description))
                break
            except ResourceInUseException:
                # Its description is eventually consistent: it was not settled after all.
                yield from self._pause(attempt)
        description = yield from self._settled(adding=change if isinstance(change, AddIndex) else None)
        if isinstance(change, AddIndex) and not is_done(change, description):
            raise IndexVanished(change.index.name)

    # ── settings with calls of their own ─────────────────────────────────────────────────────────

    def _set_ttl(self, attribute: str, request: Request, *, patient: bool) -> Steps[None]:
        """Asked for before it is set. `patient`: an attribute was switched off before, and DynamoDB takes its time."""
        for attempt in count():
            status, now = yield from self._ttl()
            if now == attribute and status in ("ENABLED", "ENABLING"):
                return
            if status in ("ENABLING", "DISABLING"):
                yield from self._pause(attempt)
                continue
            try:
                yield from self._ask(request)
                return
            except ResourceInUseException:
                yield from self._settled()
                yield from self._pause(attempt)
            except ValidationException:
                status, now = yield from self._ttl()
                if now == attribute and status in ("ENABLED", "ENABLING"):
                    return
                if not patient:
                    raise
                yield from self._pause(attempt, TTL_RETRY_SECONDS)

    def _clear_ttl(self, attribute: str, request: Request) -> Steps[None]:
        for attempt in count():
            status, now = yield from self._ttl()
            if status in ("DISABLED", "DISABLING") or now != attribute:
                return
            if status != "ENABLING":
                try:
                    yield from self._ask(request)
                    return
                except ResourceInUseException:
                    yield from self._settled()
            yield from self._pause(attempt)

    def _ttl(self) -> Steps[tuple[str, str | None]]:
        yield from self._active()
        answer = yield from self._ask(Request("DescribeTimeToLive", {"TableName": self.name}))
        described = answer["TimeToLiveDescription"]
        return described.get("TimeToLiveStatus", "DISABLED"), described.get("AttributeName")

    def _set_pitr(self, request: Request) -> Steps[None]:
        """Refused for some seconds after a table is made, until its first continuous backup is there."""
        yield from self._active()
        for attempt in count():
            try:
                yield from self._ask(request)
                return
            except UnknownOperationException:
                self.notes.append("this endpoint has no point-in-time recovery")
                return
            except (ContinuousBackupsUnavailableException, ResourceInUseException, TableNotFoundException):
                yield from self._pause(attempt)

    def _set_tags(self, change: SetTags | RemoveTags) -> Steps[None]:
        arn = shapes.facts_of((yield from self._active())).arn
        (request,) = requests_of(change, self.name, arn=arn)
        for attempt in count():
            try:
                yield from self._ask(request)
                break
            except ResourceInUseException:
                yield from self._pause(attempt)
        asked_at = self._pace.clock.now()
        for attempt in count():
            answer = yield from self._ask(Request("ListTagsOfResource", {"ResourceArn": arn}))
            if answer.get("NextToken") or are_seen(change, shapes.tags_of(answer.get("Tags", ()))):
                return
            if self._pace.clock.now() - asked_at > UNSEEN_SECONDS:
                self.notes.append("its tags are set, but not shown yet")
                return
            yield from self._pause(attempt)

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────

    def _settled(self, *, adding: AddIndex | None = None, unseen_ok: bool = False) -> Steps[Json]:
        """Waits until the table and its indexes are ACTIVE; gives its description."""
        return (yield from self._until(is_settled, adding=adding, unseen_ok=unseen_ok))

    def _active(self) -> Steps[Json]:
        """Waits until the table is ACTIVE, whatever its indexes are."""
        return (yield from self._until(lambda description: status_of(description) == "ACTIVE"))

    def _until(
        self, enough: Callable[[Json], bool], *, adding: AddIndex | None = None, unseen_ok: bool = False
    ) -> Steps[Json]:
        began_at = self._pace.clock.now()
        for attempt in count():
            description = yield from self._describe()
            if description is None:
                if not unseen_ok or self._pace.clock.now() - began_at > UNSEEN_SECONDS:
                    raise ResourceNotFoundException(f"Table {self.name} is not there")
            elif enough(description):
                return description
            else:
                self._refuse_dead(description)
                yield self._progress_of(description, began_at, adding)
            yield from self._pause(attempt)
        raise AssertionError("count() ended")

    def _gone(self) -> Steps[None]:
        """Waits until the table is really gone."""
        for attempt in count():
            description = yield from self._describe()
            if description is None:
                return
            yield self._progress(status_of(description))
            yield from self._pause(attempt)

    def _refuse_dead(self, description: Json) -> None:
        status = status_of(description)
        if status not in _WAITABLE or (status == "DELETING"):
            raise WrongState(status)

    def _pause(self, attempt: int, seconds: float | None = None) -> Steps[None]:
        waited = self._pace.clock.now() - self._started_at
        if waited >= self._pace.max_wait_seconds:
            raise WaitedTooLong("it is not ready", waited)
        pause = poll_seconds(attempt) if seconds is None else seconds
        yield Pause(min(pause, self._pace.max_wait_seconds - waited))

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    def _describe(self) -> Steps[Json | None]:
        try:
            answer = yield from self._ask(Request("DescribeTable", {"TableName": self.name}))
        except ResourceNotFoundException:
            return None
        table: Json = answer["Table"]
        return table

    def _ask(self, request: Request) -> Steps[Json]:
        """The answer; a throttled control plane is asked again, ever later."""
        for attempt in count(1):
            self._operation = request.operation
            try:
                return (yield Ask(request.operation, request.body))
            except DynamoDBError as error:
                if not error.retryable or attempt == THROTTLED_ATTEMPTS:
                    raise
            yield self._progress("throttled")
            bound = min(LONGEST_THROTTLED_SECONDS, THROTTLED_SECONDS * 2.0**attempt)
            yield from self._pause(attempt, bound * (0.5 + self._pace.chance() / 2))
        raise AssertionError("count() ended")

    def _request(self, change: Change) -> Request:
        (request,) = requests_of(change, self.name)
        return request

    def _operation_of(self, error: PenstockError) -> str:
        return self._operation if isinstance(error, DynamoDBError) else ""

    # ── telling ──────────────────────────────────────────────────────────────────────────────────

    def _progress(self, status: str) -> Progress:
        return Progress(self.name, self.doing, status, self._pace.clock.now() - self._started_at)

    def _progress_of(self, description: Json, began_at: float, adding: AddIndex | None) -> Progress:
        elapsed = self._pace.clock.now() - began_at
        index = next((one for one in indexes_of(description) if one.get("IndexStatus") != "ACTIVE"), None)
        if index is None:
            return Progress(self.name, self.doing, status_of(description), elapsed)
        making = index.get("IndexStatus") == "CREATING"
        return Progress(
            self.name,
            self.doing,
            index["IndexStatus"],
            elapsed,
            index=index["IndexName"],
            backfilling=bool(index.get("Backfilling")),
            percent=percent_of(description, index, elapsed, adding) if making else None,
        )


class _RefusedChange(PenstockError):
    """A plan with a change that is never made."""

    def __init__(self, change: str, instead: str) -> None:
        super().__init__(change, instead)
        self.change = change
        self.instead = instead

    def __str__(self) -> str:
        return f"refused, and nothing of this table was changed: {self.instead}"
