"""The writes of a processor, each one conditional UpdateItem.

1. A record is claimed only if it is pending and stands as it was judged; so at most one holds an unexpired lease.
2. Done, failed, given back and renewed are written only while the record stands as the claim, or its last renewal, left
   it: under its owner and token.
3. Done is written only if the record is as the function was given it: the condition decides, not the last writer.
4. No write makes a record: one that was deleted meanwhile stays deleted.
5. A write whose answer was lost, and which was repeated, is recognised by what it left.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.clock import Clock, SystemClock
from penstock.errors import ConditionalCheckFailedException, PenstockError
from penstock.leases import DEFAULT_LEASE_SECONDS, checked_seconds, new_owner
from penstock.records.source.done_marks import Marks, Unchanged, same
from penstock.records.source.selection import Found, Source
from penstock.records.state.answers import (
    Changed,
    Claim,
    ClaimAnswer,
    Gone,
    Lost,
    MarkAnswer,
    NotPending,
    WriteAnswer,
    Written,
)
from penstock.records.state.record_state import Free, Later, NotOurs, Standing
from penstock.records.state.steps import Request, Steps, drive
from penstock.wire.values import AttributeValue
from penstock.wire.values import Item as WireItem

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

    def claim(self, found: Found) -> ClaimAnswer:
        """The record for us (1), or why not."""
        return drive(self.claiming(found), self._execute)

    def claiming(self, found: Found) -> Steps[ClaimAnswer]:
        """The same, step by step."""
        seen = found.standing
        for _ in range(_TRIES):
            standing = self._standing(found.key, seen)
            now = self.clock.now()
            verdict = standing.verdict(now, self.max_crashes)
            if not isinstance(verdict, Free):
                return verdict
            answer = yield from self._try_claim(found, seen, self._granted(standing, now))
            if not isinstance(answer, _Seen):
                return answer
            seen = answer.standing
        return Later(self.clock.now() + 0.1)

    def _granted(self, standing: Standing, now: float) -> Standing:
        with self._granting:
            granted = standing.claimed(self.owner, now, self.lease_seconds, self._last_token)
            self._last_token = granted.token
        return granted

    def _try_claim(
        self, found: Found, seen: AttributeValue | None, standing: Standing
    ) -> Steps[Claim | Gone | NotPending | _Seen]:
        wire = standing.wire()
        values = {**self.source.claim_values, ":b": wire}
        if found.value is not None:
            values[":iv"] = found.value
        if seen is not None:
            values[":seen"] = seen
        request = {
            "TableName": self._table,
            "Key": found.key,
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
            there = self._there(found.key, error)
            if there is None:
                return Gone()
            now_seen = there.get(self._name)
            if now_seen != wire:  # else it is ours (5)
                return NotPending() if now_seen == seen else _Seen(now_seen)
            record = there
        record.pop(self._name, None)
        return Claim(found.key, record, standing, wire, found.value, asked_at + self.lease_seconds)

    def look(self, found: Found) -> Found | None:
        """The record as it stands now; None if it is gone."""
        request = {"TableName": self._table, "Key": found.key, "ConsistentRead": True}
        item = self._execute("GetItem", request).get("Item")
        return None if item is None else replace(found, standing=item.get(self._name))

    def _standing(self, key: WireItem, value: AttributeValue | None) -> Standing:
        try:
            return Standing.of(value)
        except NotOurs:
            raise BookkeepingTaken(
                f"{self._table} {self.source.key_text(key)}: the attribute {self._name}, which is for the bookkeeping, "
                f"has something else in it. Choose another name (bookkeeping=)."
            ) from None

    def _there(self, key: WireItem, error: ConditionalCheckFailedException) -> WireItem | None:
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
        standing = claim.standing.renewed(self.clock.now())
        answer = self.put_standing(claim, standing)
        if isinstance(answer, Written):
            claim.standing, claim.wire = standing, standing.wire()
            claim.believed_until = asked_at + self.lease_seconds
        return answer

    def put_standing(self, claim: Claim, standing: Standing) -> WriteAnswer:
        """The record stands like this now: failed, parked, given back, or renewed."""
        wire = standing.wire()
        names, values = {"#b": self._name}, {":b": wire}
        for _ in range(_TRIES):
            own = values[":own"] = claim.wire
            try:
                self._execute(*self._update(claim.key, "SET #b = :b", "#b = :own", names, values))
            except ConditionalCheckFailedException as error:
                there = self._there(claim.key, error)
                now = None if there is None else there.get(self._name)
                if error.maybe_ours and now == wire:  # our own first try (5)
                    return Written(standing)
                if not self._adopted(claim, own, now):
                    return Gone() if there is None else self._lost(now)
            else:
                return Written(standing)
        return Lost()

    def _adopted(self, claim: Claim, own: AttributeValue, now: AttributeValue | None) -> bool:
        """Whether it is ours still, with a renewal that this writer, who asked for `own`, had not heard of."""
        if now is None or now == own:
            return False
        if now == claim.wire:
            return True  # heard of meanwhile: the watcher's thread has written it
        standing = self._standing(claim.key, now)
        if not standing.is_of(claim.standing):
            return False
        claim.standing, claim.wire = standing, now
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
            return Lost(Standing.of(value).owner)
        except NotOurs:
            return Lost()

    # ── done ─────────────────────────────────────────────────────────────────────────────────────

    def mark(self, claim: Claim, result: Mapping[str, Any] | None) -> MarkAnswer:
        """Done: the marks and the function's result in one write (2, 3)."""
        return drive(self.marking(claim, result), self._execute)

    def marking(self, claim: Claim, result: Mapping[str, Any] | None) -> Steps[MarkAnswer]:
        """The same, step by step."""
        marks = self.marks.of(claim, result)
        text = self.marks.text(tuple(marks), tuple(claim.record))
        values = dict(zip(text.marks, marks.values(), strict=True))
        values |= {alias: claim.record[name] for alias, name in text.compared}
        if not self.source.work.has_marks:
            values[":b"] = claim.standing.finished(self.clock.now()).wire()
        for _ in range(_TRIES):
            own = values[":own"] = claim.wire
            try:
                yield self._update(claim.key, text.update, text.condition, text.names, values)
            except ConditionalCheckFailedException as error:
                there = self._there(claim.key, error)
                if there is None or not self._adopted(claim, own, there.get(self._name)):
                    return self._not_marked(claim, own, there, marks, maybe_ours=error.maybe_ours)
            else:
                return Written(claim.standing)
        return Lost()

    def _not_marked(
        self, claim: Claim, own: AttributeValue, there: WireItem | None, marks: WireItem, *, maybe_ours: bool
    ) -> MarkAnswer:
        if there is None:
            return Gone()
        now = there.get(self._name)
        if now == own:
            return Changed(self.marks.changed(claim.record, there))
        if maybe_ours and self._is_marked(there, marks, claim):
            return Written(claim.standing)
        return self._lost(now)

    def _is_marked(self, there: WireItem, marks: WireItem, claim: Claim) -> bool:
        """Our first try had done it, and only its answer was lost (5)."""
        if not all(same(there.get(name), value) for name, value in marks.items()):
            return False
        if self.source.work.has_marks:
            return self._name not in there and not any(name in there for name in self.source.work.remove)
        standing = self._standing(claim.key, there.get(self._name))
        return bool(standing.done) and standing.token == claim.standing.token

    # ── without a claim ──────────────────────────────────────────────────────────────────────────

    def park_poison(self, found: Found, standing: Standing) -> Standing | None:
        """Puts aside a record whose workers died; None if it stands otherwise by now."""
        parked = standing.parked_as_poison(self.clock.now())
        return parked if self.replace_standing(found.key, standing.wire(), parked) else None

    def replace_standing(self, key: WireItem, seen: AttributeValue, standing: Standing) -> bool:
        """The record stands otherwise now, if it still stood as it was seen."""
        wire = standing.wire()
        try:
            names, values = {"#b": self._name}, {":b": wire, ":seen": seen}
            self._execute(*self._update(key, "SET #b = :b", "#b = :seen", names, values))
        except ConditionalCheckFailedException as error:
            # Another who wanted the same has done it; it is ours only if we cannot tell (5).
            return error.maybe_ours and (self._there(key, error) or {}).get(self._name) == wire
        return True


@dataclass(frozen=True, slots=True)
class _Seen:
    """It stands otherwise than it was judged by: to be judged again."""

    standing: AttributeValue | None
