"""A conversation about one table: asking, waiting until it is as it should be, and telling how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from penstock.errors import DynamoDBError, ResourceNotFoundException
from penstock.tables.apply.change_requests import Request
from penstock.tables.apply.failures import WaitedTooLong, WrongState
from penstock.tables.apply.side_by_side import Ask, Pace, Pause, Steps, poll_seconds
from penstock.tables.apply.table_states import indexes_of, is_settled, percent_of, state_of, status_of
from penstock.tables.plan.changes import AddIndex

Json = dict[str, Any]

THROTTLED_ATTEMPTS = 10
"""Then it is no passing throttle but a limit: about two and a half minutes."""

THROTTLED_SECONDS = 1.0
LONGEST_THROTTLED_SECONDS = 30.0

UNSEEN_SECONDS = 60.0
"""How long a table that was just made may still be unknown, and a tag unseen: both are eventually consistent."""

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


class TableTalk:
    """What every conversation about a table can do; whoever does something with the table says what in `doing`."""

    def __init__(self, name: str, pace: Pace) -> None:
        self.name = name
        self.doing = ""
        self._pace = pace
        self._operation = ""
        self._state = ""
        self._started_at = pace.clock.now()

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
                _refuse_dead(description)
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
                return (yield Ask(request.operation, request.body))
            except except_for:
                raise
            except DynamoDBError as error:
                if not error.retryable or attempt == THROTTLED_ATTEMPTS:
                    raise
            yield from self._back_off(attempt)
        raise AssertionError("count() ended")

    def _back_off(self, attempt: int) -> Steps[None]:
        """After the attempt of this number, counted from 1, was throttled."""
        yield self._progress("throttled")
        bound = min(LONGEST_THROTTLED_SECONDS, THROTTLED_SECONDS * 2.0**attempt)
        yield from self._pause(attempt, bound * (0.5 + self._pace.chance() / 2))

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


def _refuse_dead(description: Json) -> None:
    status = status_of(description)
    if status not in _WAITABLE:
        raise WrongState(status)
