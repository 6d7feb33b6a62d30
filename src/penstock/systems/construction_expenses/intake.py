"""Webhooks received, tried, tried again, and given to the dead-letter table.

1. A webhook is handled once, however often and wherever it arrives: it is recorded by its id before anything is done,
   and one holder at a time has it, by a lease that a conditional write grants.
2. What a handler wants written is written in one transaction with the mark that the webhook is done, and that mark is
   conditional on the lease's token: a holder that was overtaken writes nothing.
3. Only transient errors are tried again, 5 times, after 1, 2, 4, 8 and 16 seconds; between attempts the record is
   queued, so a process that dies while waiting loses nothing (`resume`, or the next delivery, goes on).
4. What fails for good is marked and put into the dead-letter table in one transaction.
5. A replay is a new set of attempts on the same record, under the same rules; replaying what is done does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from penstock.client.items.expressions import F
from penstock.client.items.failures import ConditionFailed, TransactionFailed
from penstock.client.items.values import Item
from penstock.client.tables.transactions import Action
from penstock.clock import utc_text
from penstock.leases import DEFAULT_LEASE_SECONDS, LeaseLost, new_owner
from penstock.retry import Failure
from penstock.systems.construction_expenses import webhook_record
from penstock.systems.construction_expenses.books import Books, DeadLetters
from penstock.systems.construction_expenses.collection import NotThere
from penstock.systems.construction_expenses.failures import failure_of
from penstock.systems.construction_expenses.webhook import Webhook, WebhookDiffers

Handler = Callable[[Webhook, Books], Iterable[Action] | None]
"""Reads what it needs, and gives back what is to be written. Raises for what it cannot do."""

Outcome = Literal["handled", "duplicate", "dead-lettered", "waiting", "elsewhere"]
"""`waiting`: its next attempt is not due. `elsewhere`: another process has it."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a webhook in one call."""

    webhook_id: str
    outcome: Outcome
    status: str
    attempts: int
    retries: int
    reason: str | None = None
    dlq_entry_id: str | None = None


class Intake:
    """`wait` sleeps between attempts; None returns instead, and leaves the rest to `resume`."""

    def __init__(
        self,
        books: Books,
        handler: Handler,
        *,
        wait: Callable[[float], None] | None = time.sleep,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        owner: str | None = None,
    ) -> None:
        self.books = books
        self.owner = owner or new_owner()
        self._handler = handler
        self._wait = wait
        self._lease_seconds = lease_seconds
        self._clock = books.clock

    # ── what it is asked to do ───────────────────────────────────────────────────────────────────

    def receive(self, webhook: Webhook) -> Receipt:
        """Records a webhook and handles it; one that is known already is only reported, unless it was left undone.

        Raises WebhookDiffers where its id came with another payload before.
        """
        return self._work(self._recorded(webhook))

    def resume(self) -> Iterator[Receipt]:
        """Goes on with every webhook that is due and that nobody has: what processes that ended have left."""
        undone = F("status").in_([webhook_record.QUEUED, webhook_record.PROCESSING])
        for seen in self.books.webhooks.table.scan(filter=undone, select=["webhookId"]):
            record = self.books.webhooks.get(seen["webhookId"], consistent=True)
            if record is not None and webhook_record.due_in_seconds(record, self._clock.now()) == 0:
                yield self._work(record)

    def replay(self, entry_id: str) -> Receipt:
        """Tries a dead letter's webhook again. Raises NotThere where there is no such entry."""
        entry = self.books.dead_letters.required(entry_id)
        return self._work(self._requeued(self._record_of(entry)))

    def replay_all(self, status: webhook_record.Status = "pending", *, limit: int | None = None) -> Iterator[Receipt]:
        """Tries again every dead letter that has this status now, oldest first; none twice."""
        until = utc_text(self._clock.now())
        tried: set[str] = set()
        for entry in self.books.dead_letters.by_status(status, until=until):
            if limit is not None and len(tried) >= limit:
                return
            if entry["dlqEntryId"] not in tried:  # one that failed again stands at the end of the same index
                tried.add(entry["dlqEntryId"])
                with suppress(NotThere):  # it has expired meanwhile
                    yield self.replay(entry["dlqEntryId"])

    # ── records ──────────────────────────────────────────────────────────────────────────────────

    def _recorded(self, webhook: Webhook) -> Item:
        webhooks = self.books.webhooks
        record = webhooks.checked(webhook_record.new_record(webhook, self._clock.now()))
        try:
            webhooks.table.put(record, if_=webhooks.absent())
        except ConditionFailed as error:
            found = error.item or webhooks.required(webhook.webhook_id)
            if found["payload"] != webhook.payload:
                raise WebhookDiffers(webhook.webhook_id) from error
            return found
        return record

    def _record_of(self, entry: Item) -> Item:
        """The record of an entry's webhook, made again where it has expired."""
        webhooks = self.books.webhooks
        made = webhooks.checked(webhook_record.record_of(entry, self._clock.now()))
        try:
            webhooks.table.put(made, if_=webhooks.absent())
        except ConditionFailed as error:
            return error.item or webhooks.required(entry["webhookId"])
        return made

    def _requeued(self, record: Item) -> Item:
        if record["status"] != webhook_record.FAILED:
            return record
        return self._changed(record, webhook_record.queued_again(self._clock.now())) or self._read(record)

    def _changed(self, record: Item, changes: webhook_record.Changes) -> Item | None:
        """The record after a change; None if somebody else changed it first."""
        key = self.books.webhooks.key_of(record)
        try:
            return self.books.webhooks.table.update(
                key, set=self._stamped(changes), if_=webhook_record.fence(record), return_new=True
            )
        except ConditionFailed:
            return None

    def _stamped(self, changes: webhook_record.Changes) -> webhook_record.Changes:
        return changes | {"updatedAt": utc_text(self._clock.now())}

    def _read(self, record: Item) -> Item:
        return self.books.webhooks.required(record["webhookId"])

    # ── attempts ─────────────────────────────────────────────────────────────────────────────────

    def _work(self, record: Item) -> Receipt:
        """Attempts until it has ended, or until it is somebody else's to go on."""
        ours = False
        while (due_in := webhook_record.due_in_seconds(record, self._clock.now())) is not None:
            if due_in > 0:
                if not ours or self._wait is None:
                    return _receipt(record, "waiting" if record["status"] == webhook_record.QUEUED else "elsewhere")
                self._wait(due_in)
                continue
            tried = self._tried(record)
            if tried is None:
                return _receipt(self._read(record), "elsewhere")
            record, ours = tried, True
        if record["status"] == webhook_record.FAILED:
            return _receipt(record, "dead-lettered")
        return _receipt(record, "handled" if ours else "duplicate")

    def _tried(self, record: Item) -> Item | None:
        """The record after one attempt; None if it is another's."""
        now = self._clock.now()
        if webhook_record.is_spent(record):
            return self._buried(record, webhook_record.ABANDONED)
        held = self._changed(record, webhook_record.taken(record, self.owner, now, self._lease_seconds))
        if held is None:
            return None
        try:
            return self._completed(held, self._handled(held))
        except LeaseLost:
            return None
        except Exception as error:
            return self._settled(held, failure_of(error))
        except BaseException:  # Ctrl-C: nothing was written, and nobody should have to wait for the lease to end
            self._changed(held, webhook_record.given_back(held, self._clock.now()))
            raise

    def _handled(self, held: Item) -> list[Action]:
        return list(self._handler(webhook_record.webhook_in(held), self.books) or ())

    def _completed(self, held: Item, actions: list[Action]) -> Item:
        changes = webhook_record.completed(held, self._clock.now())
        self._together(held, changes, [*self._entry_done(held | changes), *actions])
        return held | changes

    def _settled(self, held: Item, failure: Failure) -> Item | None:
        if webhook_record.may_retry(held, failure):
            after = self._changed(held, webhook_record.retried(held, failure, self._clock.now()))
        else:
            after = self._buried(held, failure)
        if after is not None:
            return after
        # The answer to our own mark may have been lost: then it is done after all.
        found = self._read(held)
        return found if found["lease"]["token"] == held["lease"]["token"] else None

    def _buried(self, record: Item, failure: Failure) -> Item | None:
        """Marked as failed, with its entry in the dead-letter table; None if somebody else changed it first."""
        now = self._clock.now()
        changes = webhook_record.failed(record, failure, now)
        expires_at = int(now) + (DeadLetters.lifetime_seconds or 0)
        entry = webhook_record.new_entry(record | changes, expires_at)
        changes["dlqEntryId"] = entry["dlqEntryId"]
        try:
            self._together(record, changes, [self.books.dead_letters.table.put_action(entry)])
        except LeaseLost:
            return None
        return record | changes

    def _entry_done(self, record: Item) -> list[Action]:
        """The mark in the dead-letter table, for a replay whose entry has not expired."""
        entry_id = record.get("dlqEntryId")
        letters = self.books.dead_letters
        if entry_id is None or letters.get(entry_id, consistent=True) is None:
            return []
        changed = {"status": "replayed", "processingHistory": record["processingHistory"]}
        return [letters.table.update_action(letters.key(entry_id), set=changed, if_=letters.present())]

    def _together(self, record: Item, changes: webhook_record.Changes, actions: list[Action]) -> None:
        """The change of the record and the actions, or nothing. Raises LeaseLost if the record was changed."""
        webhooks = self.books.webhooks
        fence = webhook_record.fence(record)
        mark = webhooks.table.update_action(webhooks.key_of(record), set=self._stamped(changes), if_=fence)
        try:
            self.books.db.transact_write([mark, *actions])
        except TransactionFailed as error:
            if any(one.index == 0 and one.code == "ConditionalCheckFailed" for one in error.reasons):
                raise LeaseLost(record["webhookId"], reason="another process took it") from error
            raise


def _receipt(record: Item, outcome: Outcome) -> Receipt:
    failed = record["status"] != webhook_record.COMPLETED
    history = [entry for entry in record["processingHistory"] if entry["outcome"] == webhook_record.FAILED]
    last = f"{history[-1]['kind']}: {history[-1]['message']}" if history and failed else None
    return Receipt(
        record["webhookId"],
        outcome,
        record["status"],
        int(record["attempts"]),
        int(record["retryCount"]),
        record.get("failureReason", last) if failed else None,
        record.get("dlqEntryId"),
    )
