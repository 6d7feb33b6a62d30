"""Webhooks received, tried, tried again, and given to the dead-letter table.

1. A webhook is handled once, however often and wherever it arrives: it is recorded by its id before anything is done,
   and one holder at a time has it, by a lease that a conditional write grants and that is renewed while its handler
   runs.
2. What a handler wants written is written in one transaction with the mark that the webhook is done, and that mark is
   conditional on the lease's token: a holder that was overtaken writes nothing.
3. Only transient errors are tried again, 5 times, after 1, 2, 4, 8 and 16 seconds; between attempts the record is
   queued, so a process that dies while waiting loses nothing (`resume`, or the next delivery, continues it).
   Whether an error is transient is decided by its type and code, never by its text.
4. What fails for good is marked and put into the dead-letter table in one transaction.
5. A replay is a new set of attempts on the same record, under the same rules; replaying what is done does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal
from urllib.error import HTTPError, URLError

from penstock.client.items.expressions import F
from penstock.client.items.failures import ConditionFailed, TransactionFailed
from penstock.client.items.values import Item
from penstock.client.tables.transactions import Action
from penstock.clock import utc_text
from penstock.errors import DynamoDBError, PenstockError, error_of
from penstock.leases import DEFAULT_LEASE_SECONDS, HeldLease, LeaseLost, LeaseRenewer, new_owner
from penstock.optimistic import Conflict
from penstock.retry import Failure, message_of
from penstock.systems.construction_expenses.books import Books, DeadLetters, NotThere
from penstock.systems.construction_expenses.webhooks import webhook_record
from penstock.systems.construction_expenses.webhooks.webhook import Webhook

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
        return self._work(self._record(webhook))

    def resume(self) -> Iterator[Receipt]:
        """Continues every webhook that is due and that nobody has: what processes that ended have left."""
        undone = F("status").in_([webhook_record.QUEUED, webhook_record.PROCESSING])
        for seen in self.books.webhooks.table.scan(filter=undone, select=["webhookId"]):
            record = self.books.webhooks.get(seen["webhookId"], consistent=True)
            if record is not None and webhook_record.due_in_seconds(record, self._clock.now()) == 0:
                yield self._work(record)

    def proceed(self, webhook_id: str) -> Receipt | None:
        """Makes the attempt on one that is recorded, if one is due; None if its record has expired."""
        record = self.books.webhooks.get(webhook_id, consistent=True)
        return None if record is None else self._work(record)

    def due_in_seconds(self, webhook_id: str) -> float | None:
        """When its next attempt may be made; None if there is none any more."""
        record = self.books.webhooks.get(webhook_id, consistent=True)
        return None if record is None else webhook_record.due_in_seconds(record, self._clock.now())

    def replay(self, entry_id: str) -> Receipt:
        """Tries a dead letter's webhook again. Raises NotThere where there is no such entry."""
        entry = self.books.dead_letters.required(entry_id)
        # A record lives for 90 days, an entry for 180.
        record = self._add_unless_there(webhook_record.record_of(entry, self._clock.now()))
        if record["status"] == webhook_record.FAILED:
            try:
                record = self._change(record, webhook_record.retried(record, self._clock.now()))
            except Conflict as conflict:
                record = self._current(record, conflict)
        return self._work(record)

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

    def _record(self, webhook: Webhook) -> Item:
        record = self._add_unless_there(webhook_record.new_record(webhook, self._clock.now()))
        webhook_record.check_same_event(record, webhook)
        return record

    def _add_unless_there(self, record: Item) -> Item:
        """The record, or the one that there is."""
        webhooks = self.books.webhooks
        new = webhooks.prepare_item(record)
        try:
            webhooks.table.put(new, if_=webhooks.absent())
        except ConditionFailed as error:
            return error.item or webhooks.required(record["webhookId"])
        return new

    def _change(self, record: Item, changes: webhook_record.Changes) -> Item:
        """The record after a change. Raises Conflict if somebody else changed it first."""
        webhooks, fence = self.books.webhooks, webhook_record.fence(record)
        try:
            changed = webhooks.table.update(
                webhooks.key_of(record), set=self._stamp(changes), if_=fence, return_new=True
            )
        except ConditionFailed as error:
            raise Conflict(record["webhookId"], error.item) from error
        assert changed is not None  # return_new gives it
        return changed

    def _change_with(self, record: Item, changes: webhook_record.Changes, actions: list[Action]) -> Item:
        """The same with the actions, or nothing of both."""
        webhooks, fence = self.books.webhooks, webhook_record.fence(record)
        mark = webhooks.table.update_action(webhooks.key_of(record), set=self._stamp(changes), if_=fence)
        try:
            self.books.db.transact_write([mark, *actions])
        except TransactionFailed as error:
            for reason in error.reasons:
                if reason.index == 0 and reason.code == "ConditionalCheckFailed":
                    raise Conflict(record["webhookId"], reason.item) from error
            raise
        return record | changes

    def _stamp(self, changes: webhook_record.Changes) -> webhook_record.Changes:
        return changes | {"updatedAt": utc_text(self._clock.now())}

    def _current(self, record: Item, conflict: Conflict) -> Item:
        found: Item = conflict.current or self.books.webhooks.required(record["webhookId"])
        return found

    # ── attempts ─────────────────────────────────────────────────────────────────────────────────

    def _work(self, record: Item) -> Receipt:
        """Attempts until it has ended, or until it is somebody else's to continue."""
        ours = False
        while (due_in := webhook_record.due_in_seconds(record, self._clock.now())) is not None:
            if due_in > 0:
                if not ours or self._wait is None:
                    return _receipt(record, "waiting" if record["status"] == webhook_record.QUEUED else "elsewhere")
                self._wait(due_in)
                continue
            try:
                record, ours = self._attempt(record), True
            except Conflict as conflict:
                return _receipt(self._current(record, conflict), "elsewhere")
        if record["status"] == webhook_record.FAILED:
            return _receipt(record, "dead-lettered")
        return _receipt(record, "handled" if ours else "duplicate")

    def _attempt(self, record: Item) -> Item:
        """The record after one attempt. Raises Conflict if it is another's."""
        if webhook_record.is_spent(record):
            return self._bury(record, webhook_record.ABANDONED)
        now = self._clock.now()
        held = self._change(record, webhook_record.started(record, self.owner, now, self._lease_seconds))
        try:
            actions = self._handle(held)
        except Exception as error:
            return self._settle(held, failure_of(error))
        except BaseException:  # Ctrl-C: nothing was written, and nobody should have to wait for the lease to end
            with suppress(Conflict):
                self._change(held, webhook_record.requeued(held, self._clock.now()))
            raise
        try:
            changes = webhook_record.completed(held, self._clock.now())
            return self._change_with(held, changes, [*self._entry_replayed(held | changes), *actions])
        except Conflict:
            raise
        except Exception as error:
            return self._settle(held, failure_of(error))

    def _handle(self, held: Item) -> list[Action]:
        """What the handler wants written; the lease is renewed while it runs."""

        def renew() -> None:
            try:
                self._change(held, webhook_record.renewed(held, self._clock.now()))
            except Conflict as conflict:
                raise LeaseLost(held["webhookId"], reason="another process took it") from conflict

        lease = HeldLease(held["webhookId"], self._lease_seconds, renew)
        with LeaseRenewer(lambda: (lease,), name="penstock-webhook-lease"):
            return list(self._handler(webhook_record.webhook_in(held), self.books) or ())

    def _settle(self, held: Item, failure: Failure) -> Item:
        """The record after an attempt that failed: queued for the next one, or a dead letter."""
        try:
            if webhook_record.may_retry(held, failure):
                return self._change(held, webhook_record.retrying(held, failure, self._clock.now()))
            return self._bury(held, failure)
        except Conflict as conflict:
            # The answer to our own mark may have been lost: then it is done after all.
            current = self._current(held, conflict)
            if current["lease"]["token"] != held["lease"]["token"]:
                raise
            return current

    def _bury(self, record: Item, failure: Failure) -> Item:
        """Marked as failed, with its entry in the dead-letter table."""
        now = self._clock.now()
        changes = webhook_record.failed(record, failure, now)
        expires_at = int(now) + (DeadLetters.lifetime_seconds or 0)
        entry = webhook_record.new_entry(record | changes, expires_at)
        changes["dlqEntryId"] = entry["dlqEntryId"]
        return self._change_with(record, changes, [self.books.dead_letters.table.put_action(entry)])

    def _entry_replayed(self, record: Item) -> list[Action]:
        """The mark in the dead-letter table, for a replay whose entry has not expired."""
        entry_id = record.get("dlqEntryId")
        letters = self.books.dead_letters
        if entry_id is None or letters.get(entry_id, consistent=True) is None:
            return []
        changed = {"status": "replayed", "processingHistory": record["processingHistory"]}
        return [letters.table.update_action(letters.key(entry_id), set=changed, if_=letters.present())]


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


# ── failures ─────────────────────────────────────────────────────────────────────────────────────

MESSAGE_BYTES = 500
_CODE_CHARACTERS = 100
"""Of an error's text, in the history: it may hold a whole web page, and a hundred of them must fit beside a payload."""

_PASSING_REASONS = frozenset(
    {
        # Somebody wrote what this attempt had read: the next one reads again.
        "ConditionalCheckFailed",
        "InternalServerError",
        "ProvisionedThroughputExceeded",
        "RequestLimitExceeded",
        "ThrottlingError",
        "TransactionConflict",
    }
)
_TOO_MANY_REQUESTS = 429
_REQUEST_TIMEOUT = 408
_SERVER_FAILED = 500


class Transient(PenstockError):
    """For handlers to raise: what is wrong now may be right in a moment."""

    retryable = True


def failure_of(error: Exception) -> Failure:
    """Why an attempt failed, as it is kept."""
    message = message_of(error).encode()[:MESSAGE_BYTES].decode(errors="ignore")
    return Failure(type(error).__name__, message, is_transient(error), code=code_of(error))


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed later."""
    match error:
        case TransactionFailed():
            return all(reason.code in _PASSING_REASONS for reason in error.reasons)
        case PenstockError():
            return error.retryable
        case ConnectionError() | TimeoutError():
            return True
        case HTTPError():
            return _is_passing_status(error.code)
        case URLError(reason=BaseException() as reason):
            return is_transient(reason)
        case _:
            return _is_passing_answer(error)


def code_of(error: BaseException) -> str:
    """The code that the error came with: DynamoDB's, another AWS service's, or an HTTP status."""
    if isinstance(error, DynamoDBError):
        return error.code
    if isinstance(error, HTTPError):
        return str(error.code)
    code, status = _answer(error)
    return code[:_CODE_CHARACTERS] if code else str(status) if status else ""


def _is_passing_answer(error: BaseException) -> bool:
    code, status = _answer(error)
    if code is not None:
        # The codes of AWS's services that DynamoDB's client knows to be passing are the same everywhere.
        return error_of(code, "", status or 400).retryable
    return status is not None and _is_passing_status(status)


def _answer(error: BaseException) -> tuple[str | None, int | None]:
    """The code and the status of an answer that an error holds: botocore's, or that of an HTTP library."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        code = response.get("Error", {}).get("Code")
        return code if isinstance(code, str) else None, status if isinstance(status, int) else None
    status = getattr(response, "status_code", None)
    return None, status if isinstance(status, int) else None


def _is_passing_status(status: int) -> bool:
    return status in (_TOO_MANY_REQUESTS, _REQUEST_TIMEOUT) or status >= _SERVER_FAILED
