"""One table's changes, carried out: a conversation (side_by_side.py) that can be left and taken up at any point.

1. Before each change the table is looked at: what is under way is waited for, and what is there already is not done
   again. So a run that was cut off is finished by the next one, whoever began it.
2. One change at a time: DynamoDB makes or deletes one index of a table at once.
3. Whatever happens is in the work afterwards: what is done, what was being done, and why it failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from penstock.errors import (
    ContinuousBackupsUnavailableException,
    DynamoDBError,
    LimitExceededException,
    PenstockError,
    ResourceInUseException,
    ResourceNotFoundException,
    TableNotFoundException,
    UnknownOperationException,
    ValidationException,
)
from penstock.tables.apply.change_requests import Request, requests_of
from penstock.tables.apply.failures import Failure, IndexVanished, RefusedChange, StrangeAnswer, failure_of
from penstock.tables.apply.side_by_side import Pace, Steps
from penstock.tables.apply.table_poller import THROTTLED_ATTEMPTS, UNSEEN_SECONDS, TableTalk
from penstock.tables.apply.table_states import are_seen, is_done, status_of, with_definitions
from penstock.tables.definitions import aws_shapes
from penstock.tables.definitions.definition import Table
from penstock.tables.plan.changes import (
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
from penstock.tables.plan.costs import Refused
from penstock.tables.plan.render import describe_whole
from penstock.tables.plan.survey import Surveyed

Json = dict[str, Any]

TTL_RETRY_SECONDS = 60.0
"""DynamoDB refuses a second change of TTL for up to an hour."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A change that is done."""

    table: str
    change: str


class TableWork(TableTalk):
    """What is to be done to one table, and what has become of it."""

    def __init__(self, surveyed: Surveyed, pace: Pace, *, tags: Mapping[str, str] | None = None, policy: str = ""):
        super().__init__(surveyed.name, pace)
        self.surveyed = surveyed
        self.done: list[Change] = []
        self.failure: Failure | None = None
        self.notes: list[str] = []
        self.existed = False
        self.ended = False
        self._tags, self._policy = tags, policy

    def steps(self) -> Steps[None]:
        """The conversation. It catches its failures: they are in `failure` then."""
        self._started_at = self._pace.clock.now()
        try:
            self._refuse()
            yield from self._changes()
        except PenstockError as error:
            self._fail(error)
        except (KeyError, TypeError, ValueError) as error:
            # An endpoint that is not quite DynamoDB: the other tables are none the worse for it.
            self._fail(StrangeAnswer(self._operation, repr(error)))
        self.ended = True

    def _fail(self, error: PenstockError) -> None:
        operation = self._operation if isinstance(error, DynamoDBError) else ""
        self.failure = failure_of(self.name, self.doing, error, operation=operation, policy=self._policy)

    def _refuse(self) -> None:
        plan = self.surveyed.plan
        for change in plan.changes:
            cost = plan.cost(change)
            if isinstance(cost, Refused):
                self.doing = describe_whole(change)
                raise RefusedChange(cost.instead)

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
        limits = 0
        for attempt in count():
            description = yield from self._settled()
            if is_done(change, description):
                return
            request = with_definitions(self._request(change), change, description)
            try:
                yield from self._ask(request, except_for=(LimitExceededException,))
                break
            except ResourceInUseException:
                # Its description is eventually consistent: it was not settled after all.
                yield from self._pause(attempt)
            except LimitExceededException:
                # Somebody else's index, which may take hours and is waited for; or a limit that stays.
                limits += 1
                if limits == THROTTLED_ATTEMPTS:
                    raise
                yield from self._back_off(limits)
        description = yield from self._settled(adding=change if isinstance(change, AddIndex) else None)
        if isinstance(change, AddIndex) and not is_done(change, description):
            raise IndexVanished(change.index.name)

    def _request(self, change: Change) -> Request:
        (request,) = requests_of(change, self.name)
        return request

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
        arn = aws_shapes.facts_of((yield from self._active())).arn
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
            if answer.get("NextToken") or are_seen(change, aws_shapes.tags_of(answer.get("Tags", ()))):
                return
            if self._pace.clock.now() - asked_at > UNSEEN_SECONDS:
                self.notes.append("its tags are set, but not shown yet")
                return
            yield from self._pause(attempt)
