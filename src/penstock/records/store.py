"""The writes of a processor, each one conditional UpdateItem.

1. A record is claimed only if it is pending and its state is the one that was judged; so at most one holds an unexpired
   lease.
2. Done, failed, given back and renewed are written only while the state is as the claim, or its last renewal, left it:
   under its owner and token.
3. Done is written only if the record is as the function was given it: the condition decides, not the last writer.
4. No write makes a record: one that was deleted meanwhile stays deleted.
5. A write whose answer was lost, and which was repeated, is recognised by what it left.

A claim and a mark are conversations: generators that yield a request, and are sent its answer or its error. So they
need not know whether they are alone, or whether their requests share a commit with others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from penstock.client.database import Database
from penstock.clock import Clock, SystemClock
from penstock.errors import ConditionalCheckFailedException, PenstockError
from penstock.leases import DEFAULT_LEASE_SECONDS, checked_seconds, new_owner
from penstock.records.record_state import (
    Changed,
    Claim,
    ClaimAnswer,
    Free,
    Gone,
    Later,
    Lost,
    MarkAnswer,
    NotOurs,
    NotPending,
    RecordState,
    WriteAnswer,
    Written,
)
from penstock.records.source import Candidate, Marks, Source, Unchanged, same
from penstock.wire.values import AttributeValue
from penstock.wire.values import Item as WireItem

T = TypeVar("T")

Request = tuple[str, dict[str, Any]]
Answer = dict[str, Any]
Steps = Generator[Request, Answer, T]


def drive(steps: Steps[T], execute: Callable[..., Answer]) -> T:
    """What comes of the conversation, held alone."""
    try:
        return _rest(steps, next(steps), execute)
    except StopIteration as stop:
        result: T = stop.value
        return result


def drive_together(conversations: Sequence[Steps[T]], db: Database) -> list[T | Exception]:
    """What comes of each, or what it raised. All first requests are one commit, where the database can do that."""
    results: dict[int, T | Exception] = {}
    requests: dict[int, Request] = {}
    for number, steps in enumerate(conversations):
        try:
            requests[number] = next(steps)
        except StopIteration as stop:
            results[number] = stop.value
        except Exception as error:
            results[number] = error
    answers = db.execute_together(list(requests.values()))
    for number, answer in zip(requests, answers, strict=True):
        steps = conversations[number]
        try:
            request = steps.throw(answer) if isinstance(answer, Exception) else steps.send(answer)
            results[number] = _rest(steps, request, db.execute)
        except StopIteration as stop:  # most end with their first answer
            results[number] = stop.value
        except Exception as error:
            results[number] = error
    return [results[number] for number in range(len(conversations))]


def _rest(steps: Steps[T], request: Request, execute: Callable[..., Answer]) -> T:
    """The rest of a conversation: further requests are seldom."""
    try:
        while True:
            try:
                answer = execute(*request)
            except Exception as error:
                request = steps.throw(error)
            else:
                request = steps.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result


DEFAULT_MAX_CRASHES: Final = 3
_TRIES: Final = 5  # at claiming a record that others claim and let go at the same moment


class BookkeepingTaken(PenstockError):
    """A record's attribute for the bookkeeping has something of somebody else's."""


class RecordStore:
    """One processor's writes. Safe to share between threads."""

    def __init__(
        self,
        source: Source,
        *,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        max_crashes: int = DEFAULT_MAX_CRASHES,
        unchanged: Unchanged = "record",
        owner: str = "",
        clock: Clock | None = None,
    ) -> None:
        self.source = source
        self.owner = owner or new_owner()
        self.clock = clock or SystemClock()
        self.lease_seconds = checked_seconds(lease_seconds)
        self.max_crashes = max_crashes
        self.marks = Marks(source, unchanged)
        self._granting = threading.Lock()
        self._last_token = 0
        self._execute = source.db.execute
        self._table = source.work.table
        self._name = source.work.bookkeeping
        self._claim_new = f"{source.pending} AND attribute_not_exists(#b)"
        self._claim_seen = f"{source.pending} AND #b = :seen"

    # ── claiming ─────────────────────────────────────────────────────────────────────────────────

    def claim(self, candidate: Candidate) -> ClaimAnswer:
        """The record for us (1), or why not."""
        return drive(self.claim_steps(candidate), self._execute)

    def claim_steps(self, candidate: Candidate) -> Steps[ClaimAnswer]:
        """The same, step by step."""
        seen = candidate.state
        for _ in range(_TRIES):
            state = self._state_of(candidate.key, seen)
            now = self.clock.now()
            verdict = state.verdict(now, self.max_crashes)
            if not isinstance(verdict, Free):
                return verdict
            answer = yield from self._try_claim(candidate, seen, self._grant(state, now))
            if not isinstance(answer, _Seen):
                return answer
            seen = answer.state
        return Later(self.clock.now() + 0.1)

    def _grant(self, state: RecordState, now: float) -> RecordState:
        with self._granting:
            granted = state.claim(self.owner, now, self.lease_seconds, self._last_token)
            self._last_token = granted.token
        return granted

    def _try_claim(
        self, candidate: Candidate, seen: AttributeValue | None, state: RecordState
    ) -> Steps[Claim | Gone | NotPending | _Seen]:
        wire = state.wire()
        values = {**self.source.claim_values, ":b": wire}
        if candidate.value is not None:
            values[":iv"] = candidate.value
        if seen is not None:
            values[":seen"] = seen
        request = {
            "TableName": self._table,
            "Key": candidate.key,
            "UpdateExpression": "SET #b = :b",
            "ConditionExpression": self._claim_new if seen is None else self._claim_seen,
            "ExpressionAttributeNames": self.source.names,
            "ExpressionAttributeValues": values,
            "ReturnValues": "ALL_NEW",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        asked_at = time.monotonic()
        try:
            record = (yield "UpdateItem", request)["Attributes"]
        except ConditionalCheckFailedException as error:
            there = self._current_item(candidate.key, error)
            if there is None:
                return Gone()
            now_seen = there.get(self._name)
            if now_seen != wire:  # else it is ours (5)
                return NotPending() if now_seen == seen else _Seen(now_seen)
            record = there
        record.pop(self._name, None)
        return Claim(candidate.key, record, state, wire, candidate.value, asked_at + self.lease_seconds)

    def look(self, candidate: Candidate) -> Candidate | None:
        """The record as it is now; None if it is gone."""
        request = {"TableName": self._table, "Key": candidate.key, "ConsistentRead": True}
        item = self._execute("GetItem", request).get("Item")
        return None if item is None else replace(candidate, state=item.get(self._name))

    def _state_of(self, key: WireItem, value: AttributeValue | None) -> RecordState:
        try:
            return RecordState.of(value)
        except NotOurs:
            raise BookkeepingTaken(
                f"{self._table} {self.source.key_text(key)}: the attribute {self._name}, which is for the bookkeeping, "
                f"has something else in it. Choose another name (bookkeeping=)."
            ) from None

    def _current_item(self, key: WireItem, error: ConditionalCheckFailedException) -> WireItem | None:
        """The record that stood in the way. Some servers do not tell it."""
        if error.item is not None:
            return error.item
        found: WireItem | None = self._execute(
            "GetItem", {"TableName": self._table, "Key": key, "ConsistentRead": True}
        ).get("Item")
        return found

    # ── under a claim ────────────────────────────────────────────────────────────────────────────

    def renew(self, claim: Claim) -> WriteAnswer:
        """A later end of the lease. The claim's own is moved where it was written."""
        asked_at = time.monotonic()
        state = claim.state.renew(self.clock.now())
        answer = self.put_state(claim, state)
        if isinstance(answer, Written):
            claim.state, claim.wire = state, state.wire()
            claim.believed_until = asked_at + self.lease_seconds
        return answer

    def put_state(self, claim: Claim, state: RecordState) -> WriteAnswer:
        """The record has this state now: to be tried again, failed, given back, or renewed."""
        wire = state.wire()
        names, values = {"#b": self._name}, {":b": wire}
        for _ in range(_TRIES):
            own = values[":own"] = claim.wire
            try:
                self._execute(*self._update(claim.key, "SET #b = :b", "#b = :own", names, values))
            except ConditionalCheckFailedException as error:
                there = self._current_item(claim.key, error)
                now = None if there is None else there.get(self._name)
                if error.maybe_ours and now == wire:  # our own first try (5)
                    return Written(state)
                if not self._adopt_renewal(claim, own, now):
                    return Gone() if there is None else self._lost(now)
            else:
                return Written(state)
        return Lost()

    def _adopt_renewal(self, claim: Claim, own: AttributeValue, now: AttributeValue | None) -> bool:
        """Whether it is ours still, with a renewal that this writer, who asked for `own`, had not heard of."""
        if now is None or now == own:
            return False
        if now == claim.wire:
            return True  # heard of meanwhile: the renewer's thread has written it
        state = self._state_of(claim.key, now)
        if not state.is_of(claim.state):
            return False
        claim.state, claim.wire = state, now
        return True

    def _update(self, key: WireItem, update: str, condition: str, names: dict[str, str], values: WireItem) -> Request:
        return "UpdateItem", {
            "TableName": self._table,
            "Key": key,
            "UpdateExpression": update,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def _lost(self, value: AttributeValue | None) -> Lost:
        try:
            return Lost(RecordState.of(value).owner)
        except NotOurs:
            return Lost()

    # ── done ─────────────────────────────────────────────────────────────────────────────────────

    def mark(self, claim: Claim, result: Mapping[str, Any] | None) -> MarkAnswer:
        """Done: the marks and the function's result in one write (2, 3)."""
        return drive(self.mark_steps(claim, result), self._execute)

    def mark_steps(self, claim: Claim, result: Mapping[str, Any] | None) -> Steps[MarkAnswer]:
        """The same, step by step."""
        marks = self.marks.of(claim, result)
        text = self.marks.text(tuple(marks), tuple(claim.record))
        values = dict(zip(text.marks, marks.values(), strict=True))
        values |= {alias: claim.record[name] for alias, name in text.compared}
        if not self.source.work.has_marks:
            values[":b"] = claim.state.finish(self.clock.now()).wire()
        for _ in range(_TRIES):
            own = values[":own"] = claim.wire
            try:
                yield self._update(claim.key, text.update, text.condition, text.names, values)
            except ConditionalCheckFailedException as error:
                there = self._current_item(claim.key, error)
                if there is None or not self._adopt_renewal(claim, own, there.get(self._name)):
                    return self._why_not_marked(claim, own, there, marks, maybe_ours=error.maybe_ours)
            else:
                return Written(claim.state)
        return Lost()

    def _why_not_marked(
        self, claim: Claim, own: AttributeValue, there: WireItem | None, marks: WireItem, *, maybe_ours: bool
    ) -> MarkAnswer:
        if there is None:
            return Gone()
        now = there.get(self._name)
        if now == own:
            return Changed(self.marks.changed(claim.record, there))
        if maybe_ours and self._is_marked(there, marks, claim):
            return Written(claim.state)
        return self._lost(now)

    def _is_marked(self, there: WireItem, marks: WireItem, claim: Claim) -> bool:
        """Our first try had done it, and only its answer was lost (5)."""
        if not all(same(there.get(name), value) for name, value in marks.items()):
            return False
        if self.source.work.has_marks:
            return self._name not in there and not any(name in there for name in self.source.work.remove)
        state = self._state_of(claim.key, there.get(self._name))
        return bool(state.done) and state.token == claim.state.token

    # ── without a claim ──────────────────────────────────────────────────────────────────────────

    def fail_poison(self, candidate: Candidate, state: RecordState) -> RecordState | None:
        """A record whose workers died has failed; None if its state is another by now."""
        failed = state.fail_as_poison(self.clock.now())
        return failed if self.replace_state(candidate.key, state.wire(), failed) else None

    def replace_state(self, key: WireItem, seen: AttributeValue, state: RecordState) -> bool:
        """The record has another state now, if it still had the one that was seen."""
        wire = state.wire()
        try:
            names, values = {"#b": self._name}, {":b": wire, ":seen": seen}
            self._execute(*self._update(key, "SET #b = :b", "#b = :seen", names, values))
        except ConditionalCheckFailedException as error:
            # Another who wanted the same has done it; it is ours only if we cannot tell (5).
            return error.maybe_ours and (self._current_item(key, error) or {}).get(self._name) == wire
        return True


@dataclass(frozen=True, slots=True)
class _Seen:
    """Its state is not the one that it was judged by: to be judged again."""

    state: AttributeValue | None
