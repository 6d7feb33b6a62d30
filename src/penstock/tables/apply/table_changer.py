"""One table's changes, carried out: a conversation (conversations.py) that can be left and taken up at any point.

1. Before each change the table is looked at: what is under way is waited for, and what is there already is not done
   again. So the next run finishes one that was cut off, whoever began it.
2. One change at a time: DynamoDB makes or deletes one index of a table at once.
3. Whatever happens is in the changer afterwards: what is done, what was being done, and why it failed.
4. What this run has not begun itself, and what DynamoDB refuses for now, is told while it is waited for (`Waiting`);
   or not waited for at all, where the pace says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

from penstock.errors import (
    ContinuousBackupsUnavailableException,
    DynamoDBError,
    LimitExceededException,
    PenstockError,
    PolicyNotFoundException,
    ResourceInUseException,
    ResourceNotFoundException,
    TableNotFoundException,
    UnknownOperationException,
    ValidationException,
)
from penstock.retry import Backoff
from penstock.tables.apply.conversations import Pace, Pause, Steps, poll_seconds
from penstock.tables.apply.requests import Json, Request, requests_of, with_definitions
from penstock.tables.definitions import aws_shapes
from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.resource_policy import same_policy
from penstock.tables.plan.changes import (
    AddIndex,
    Change,
    ClearStream,
    ClearTtl,
    CreateTable,
    DeleteTable,
    DropIndex,
    RemoveResourcePolicy,
    RemoveTags,
    SetPitr,
    SetResourcePolicy,
    SetStream,
    SetTags,
    SetTtl,
    describe_whole,
    fill_seconds,
)
from penstock.tables.plan.failures import (
    Failure,
    IndexVanished,
    NotWaited,
    RefusedChange,
    StrangeAnswer,
    WaitedTooLong,
    WrongState,
    failure_of,
)
from penstock.tables.plan.survey import TableSurvey


def status_of(description: Json) -> str:
    return str(description.get("TableStatus", "ACTIVE"))


def indexes_of(description: Json) -> list[Json]:
    return [*(description.get("GlobalSecondaryIndexes") or ()), *(description.get("VectorIndexes") or ())]


def is_active(description: Json) -> bool:
    still = all(one.get("IndexStatus", "ACTIVE") == "ACTIVE" for one in indexes_of(description))
    return status_of(description) == "ACTIVE" and still


def state_of(description: Json) -> str:
    """In words, for whoever waits: `UPDATING`, or `CREATING index by-due`."""
    moving = (one for one in indexes_of(description) if one.get("IndexStatus", "ACTIVE") != "ACTIVE")
    index = next(moving, None)
    return status_of(description) if index is None else f"{index['IndexStatus']} index {index['IndexName']}"


def is_done(change: Change, description: Json) -> bool:
    """Whether a table has what a change would give it, as far as that can be seen: somebody else may have been quicker,
    or this run's own call may have been lost on its way back.
    """
    live = aws_shapes.from_description(description)
    match change:
        case AddIndex(index):
            there = live.index(index.name) or live.vector_index(index.name)
            return there is not None and there.shape == index.shape
        case DropIndex(index):
            return live.index(index.name) is None and live.vector_index(index.name) is None
        case SetStream(view):
            return live.stream == view
        case ClearStream():
            return live.stream is None
        case _:
            return False


def tags_visible(change: SetTags | RemoveTags, tags: Mapping[str, str]) -> bool:
    if isinstance(change, SetTags):
        return change.tags.items() <= tags.items()
    return tags.keys().isdisjoint(change.keys)


def percent_of(description: Json, index: Json, elapsed: float, adding: AddIndex | None) -> int | None:
    """By the index's own count of items where it has one (AWS counts every six hours), else by the time it takes."""
    items = int(description.get("ItemCount") or 0)
    if not items:
        return None
    by_count = int(index.get("ItemCount") or 0) / items
    expected = fill_seconds(adding.index, items) if adding is not None else 0.0
    by_time = elapsed / expected if expected else 0.0
    return min(99, round(100 * max(by_count, by_time)))


THROTTLED_ATTEMPTS = 10
"""Then it is no passing throttle but a limit: about two and a half minutes."""

THROTTLED_BACKOFF = Backoff(base_seconds=2.0, cap_seconds=30.0)

UNSEEN_SECONDS = 60.0
"""How long a table that was just made may still be unknown, and a tag unseen: both are eventually consistent."""

SETTLE_SECONDS = 10.0
"""How long a table may still look busy with a change of ours that is done: descriptions are eventually consistent."""

REFUSED_SECONDS = 300.0
"""How long a table that is ACTIVE may refuse a change as in use: then it will not end, as moto's refusal of a second
stream does not. While somebody else's change is under way, the table says so, and is waited for as long as asked."""

_WAITABLE = frozenset({"ACTIVE", "CREATING", "UPDATING"})


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
class Waiting:
    """What is waited for that this run has not begun itself, told before every look (4)."""

    table: str
    change: str
    reason: str
    waited_seconds: float
    """Since this reason was met first."""
    pause_seconds: float
    """Until the next look."""
    left_seconds: float
    """Then the run gives up."""


class TablePoller:
    """What every conversation about a table can do; whoever does something with the table says what in `doing`."""

    def __init__(self, name: str, pace: Pace) -> None:
        self.name = name
        self.doing = ""
        self._pace = pace
        self._operation = ""
        self._state = ""
        self._started_at = pace.clock.now()
        self._has_changed = False
        self._reason, self._reason_since = "", 0.0

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────

    def _wait_until_active(
        self, *, adding: AddIndex | None = None, unseen_ok: bool = False, others: bool = False
    ) -> Steps[Json]:
        """Waits until the table and its indexes are ACTIVE; gives its description. `others`: as in `_wait_until`."""
        return (yield from self._wait_until(is_active, adding=adding, unseen_ok=unseen_ok, others=others))

    def _wait_until_table_active(self) -> Steps[Json]:
        """Waits until the table is ACTIVE, whatever its indexes are."""
        return (yield from self._wait_until(lambda description: status_of(description) == "ACTIVE", others=True))

    def _wait_until(
        self,
        enough: Callable[[Json], bool],
        *,
        adding: AddIndex | None = None,
        unseen_ok: bool = False,
        others: bool = False,
    ) -> Steps[Json]:
        """`others`: what keeps the table busy was not begun by this run."""
        began_at = self._pace.clock.now()
        for attempt in count():
            description = yield from self._describe()
            if description is None:
                if not unseen_ok or self._pace.clock.now() - began_at > UNSEEN_SECONDS:
                    raise ResourceNotFoundException(f"Table {self.name} is not there")
            elif enough(description):
                return description
            else:
                _refuse_final_state(description)
                yield self._progress_of(description, began_at, adding)
                if others:
                    yield from self._wait_for_others(f"it is {self._state}", attempt)
                    continue
            yield from self._pause(attempt)
        raise AssertionError("count() ended")

    def _wait_until_deleted(self, *, others: bool = False) -> Steps[None]:
        """Waits until the table is really gone. `others`: this run does not delete it."""
        for attempt in count():
            description = yield from self._describe()
            if description is None:
                return
            yield self._progress(status_of(description))
            yield from self._wait_for_others("it is DELETING", attempt) if others else self._pause(attempt)

    def _wait_for_others(self, reason: str, attempt: int, seconds: float | None = None) -> Steps[None]:
        """A pause for what this run has not begun itself: told, or refused (4)."""
        self._note_reason(reason)
        waited = self._pace.clock.now() - self._reason_since
        if not self._pace.waits_for_others and waited >= (SETTLE_SECONDS if self._has_changed else 0.0):
            raise NotWaited(reason)
        yield from self._pause_for(reason, attempt, seconds)

    def _pause_for(self, reason: str, attempt: int, seconds: float | None = None) -> Steps[None]:
        """A pause that is told, with its reason."""
        self._note_reason(reason)
        now = self._pace.clock.now()
        left = max(0.0, self._pace.max_wait_seconds - (now - self._started_at))
        pause = min(left, poll_seconds(attempt) if seconds is None else seconds)
        yield Waiting(self.name, self.doing, reason, now - self._reason_since, pause, left)
        yield from self._pause(attempt, seconds)

    def _note_reason(self, reason: str) -> None:
        if reason != self._reason:
            self._reason, self._reason_since = reason, self._pace.clock.now()

    def _pause(self, attempt: int, seconds: float | None = None) -> Steps[None]:
        waited = self._pace.clock.now() - self._started_at
        if waited >= self._pace.max_wait_seconds:
            raise WaitedTooLong(f"it is still {self._state}" if self._state else "it is not ready", waited)
        pause = poll_seconds(attempt) if seconds is None else seconds
        yield Pause(min(pause, self._pace.max_wait_seconds - waited))

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    def _describe(self) -> Steps[Json | None]:
        try:
            answer = yield from self._ask(Request("DescribeTable", {"TableName": self.name}))
        except ResourceNotFoundException:
            return None
        table: Json = answer["Table"]
        self._state = state_of(table)
        return table

    def _ask(self, request: Request, *, except_for: tuple[type[DynamoDBError], ...] = ()) -> Steps[Json]:
        """The answer; a throttled control plane is asked again, ever later. Errors of `except_for` are the caller's."""
        for attempt in count(1):
            self._operation = request.operation
            try:
                return (yield request)
            except except_for:
                raise
            except DynamoDBError as error:
                if not error.retryable or attempt == THROTTLED_ATTEMPTS or self._is_refusal_by_others(error):
                    raise
                refused = error
            yield from self._back_off(attempt, refused)
        raise AssertionError("count() ended")

    def _is_refusal_by_others(self, error: DynamoDBError) -> bool:
        """A limit that other changes of the account fill, where this run waits for nobody."""
        return isinstance(error, LimitExceededException) and not self._pace.waits_for_others

    def _back_off(self, attempt: int, error: DynamoDBError) -> Steps[None]:
        """After the attempt of this number, counted from 1, was refused for now."""
        yield self._progress("throttled")
        bound = THROTTLED_BACKOFF.bound(attempt)
        yield from self._pause_for(error_text(error), attempt, bound * (0.5 + self._pace.chance() / 2))

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


def error_text(error: DynamoDBError) -> str:
    return f"{error.code}: {error.message.rstrip('.')}" if error.message else error.code


def _refuse_final_state(description: Json) -> None:
    status = status_of(description)
    if status not in _WAITABLE:
        raise WrongState(status)


TTL_RETRY_SECONDS = 60.0
"""DynamoDB refuses a second change of TTL for up to an hour."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A change that is done."""

    table: str
    change: str


@dataclass(frozen=True, slots=True)
class AlreadyMade:
    """A change that somebody else has made since the table was looked at."""

    table: str
    change: str


class TableChanger(TablePoller):
    """What is to be done to one table, and what has become of it."""

    def __init__(self, survey: TableSurvey, pace: Pace, *, tags: Mapping[str, str] | None = None, policy: str = ""):
        super().__init__(survey.name, pace)
        self.survey = survey
        self.done: list[Change] = []
        self.failure: Failure | None = None
        self.notes: list[str] = []
        self.ended = False
        self._made_by_another = False
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
        refusal = self.survey.plan.refusal
        if refusal is not None:
            change, cost = refusal
            self.doing = describe_whole(change)
            raise RefusedChange(cost.instead)

    def _changes(self) -> Steps[None]:
        for change in self.survey.plan.changes:
            self.doing = describe_whole(change)
            yield self._progress("begins")
            self._made_by_another = False
            yield from self._make(change)
            if self._made_by_another:
                yield AlreadyMade(self.name, self.doing)
            else:
                self.done.append(change)
                self._has_changed = True
                yield Finished(self.name, self.doing)
        if not self.survey.plan.changes:
            self.doing = "waiting for what is under way"
            live = self.survey.live
            if not self._pace.waits_for_others:
                self.notes.append("what is under way there was not waited for")
            elif live is not None and live.facts.status == "DELETING":
                yield from self._wait_until_deleted(others=True)
            else:
                yield from self._wait_until_active(others=True)
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
            case SetResourcePolicy(policy):
                yield from self._set_policy(policy)
            case RemoveResourcePolicy():
                yield from self._set_policy("")
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
                    yield from self._wait_until_deleted(others=True)
                    continue
                if not error.maybe_ours:
                    self._made_by_another = True
                    self.notes.append("somebody else has made it meanwhile: plan again to compare it")
                    if self._pace.waits_for_others:
                        yield from self._wait_until_active(unseen_ok=True, others=True)
                    return
                break
        yield from self._wait_until_active(unseen_ok=True)
        self._has_changed = True
        doing = self.doing
        for request in rest:
            if request.operation == "UpdateTimeToLive":
                self.doing = f"+ ttl {table.ttl}"
                yield from self._set_ttl(table.ttl or "", request, patient=False)
            else:
                self.doing = "+ point-in-time recovery"
                yield from self._set_pitr(request)
        if table.resource_policy:  # CreateTable has set it already; some endpoints leave it out
            self.doing = "+ resource policy"
            yield from self._set_policy(table.resource_policy)
        self.doing = doing

    def _delete(self, change: DeleteTable) -> Steps[None]:
        (request,) = requests_of(change, self.name)
        while True:
            try:
                yield from self._ask(request)
                break
            except ResourceNotFoundException as error:
                self._made_by_another = not error.maybe_ours
                return
            except ResourceInUseException as error:
                description = yield from self._describe()
                if description is None or status_of(description) == "DELETING":
                    break
                yield from self._wait_until_active(others=True)
                yield from self._wait_for_others(error_text(error), 0)
        yield from self._wait_until_deleted()

    def _update(self, change: Change) -> Steps[None]:
        """An UpdateTable: one at a time, each waited for before and after."""
        limits = 0
        for attempt in count():
            description = yield from self._wait_until_active(others=True)
            if is_done(change, description):
                self._made_by_another = attempt == 0  # else it may be ours: an answer that was lost
                return
            request = with_definitions(self._request(change), change, description)
            try:
                yield from self._ask(request, except_for=(LimitExceededException,))
                break
            except ResourceInUseException as error:
                # Its description is eventually consistent: it was not settled after all.
                yield from self._wait_for_others(error_text(error), attempt)
                if self._pace.clock.now() - self._reason_since > REFUSED_SECONDS:
                    raise
            except LimitExceededException as error:
                # Somebody else's index, which may take hours and is waited for; or a limit that stays.
                limits += 1
                if limits == THROTTLED_ATTEMPTS or self._is_refusal_by_others(error):
                    raise
                yield from self._back_off(limits, error)
        description = yield from self._wait_until_active(adding=change if isinstance(change, AddIndex) else None)
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
                yield from self._wait_for_others(f"its TTL is {status}", attempt)
                continue
            try:
                yield from self._ask(request)
                return
            except ResourceInUseException as error:
                yield from self._wait_until_active(others=True)
                yield from self._wait_for_others(error_text(error), attempt)
            except ValidationException as error:
                status, now = yield from self._ttl()
                if now == attribute and status in ("ENABLED", "ENABLING"):
                    return
                if not patient:
                    raise
                yield from self._wait_for_others(error_text(error), attempt, TTL_RETRY_SECONDS)

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
                    yield from self._wait_until_active(others=True)
            yield from self._wait_for_others(f"its TTL is {status}", attempt)

    def _ttl(self) -> Steps[tuple[str, str | None]]:
        yield from self._wait_until_table_active()
        answer = yield from self._ask(Request("DescribeTimeToLive", {"TableName": self.name}))
        described = answer["TimeToLiveDescription"]
        return described.get("TimeToLiveStatus", "DISABLED"), described.get("AttributeName")

    def _set_pitr(self, request: Request) -> Steps[None]:
        """Refused for some seconds after a table is made, until its first continuous backup is there."""
        yield from self._wait_until_table_active()
        for attempt in count():
            try:
                yield from self._ask(request)
                return
            except UnknownOperationException:
                self.notes.append("this endpoint has no point-in-time recovery")
                return
            except (ContinuousBackupsUnavailableException, ResourceInUseException, TableNotFoundException) as error:
                yield from self._pause_for(error_text(error), attempt)

    def _set_tags(self, change: SetTags | RemoveTags) -> Steps[None]:
        arn = aws_shapes.facts_of((yield from self._wait_until_table_active())).arn
        (request,) = requests_of(change, self.name, arn=arn)
        for attempt in count():
            try:
                yield from self._ask(request)
                break
            except ResourceInUseException as error:
                yield from self._wait_for_others(error_text(error), attempt)
        asked_at = self._pace.clock.now()
        for attempt in count():
            answer = yield from self._ask(Request("ListTagsOfResource", {"ResourceArn": arn}))
            if answer.get("NextToken") or tags_visible(change, aws_shapes.tags_of(answer.get("Tags", ()))):
                return
            if self._pace.clock.now() - asked_at > UNSEEN_SECONDS:
                self.notes.append("its tags are set, but not shown yet")
                return
            yield from self._pause(attempt)

    # ── the resource policy ──────────────────────────────────────────────────────────────────────

    def _set_policy(self, policy: str) -> Steps[None]:
        """'' for none. GetResourcePolicy is eventually consistent: it is asked until it tells the new one."""
        arn = aws_shapes.facts_of((yield from self._wait_until_table_active())).arn
        change: Change = SetResourcePolicy(policy) if policy else RemoveResourcePolicy()
        (request,) = requests_of(change, self.name, arn=arn)
        try:
            if same_policy((yield from self._resource_policy(arn)), policy):
                return
            yield from self._ask(request)
        except UnknownOperationException:
            self.notes.append("this endpoint has no resource policies")
            return
        asked_at = self._pace.clock.now()
        for attempt in count():
            if same_policy((yield from self._resource_policy(arn)), policy):
                return
            if self._pace.clock.now() - asked_at > UNSEEN_SECONDS:
                self.notes.append("its resource policy is set, but not shown yet")
                return
            yield from self._pause(attempt)

    def _resource_policy(self, arn: str) -> Steps[str]:
        try:
            answer = yield from self._ask(Request("GetResourcePolicy", {"ResourceArn": arn}))
        except PolicyNotFoundException:
            return ""
        return str(answer.get("Policy") or "")
