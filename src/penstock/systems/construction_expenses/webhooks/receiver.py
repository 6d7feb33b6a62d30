"""Paddle's webhooks as they arrive: verified, recorded, and left to a job.

1. Nothing is stored of what is not signed, or late. The body is kept byte by byte, beside what was read from it.
2. The record of a webhook and the job that handles it are made in one transaction, and only then is it acknowledged:
   what was acknowledged is handled, whichever process dies. The job's idempotency key is the webhook's id.
3. The job calls `Intake`, whose record counts the attempts and holds the lease: a webhook is handled once, and what
   fails for good is in the dead-letter table. The job is retried when the record's next attempt is due.
4. The same event may come again, as another notification: what differs then is the notification's id, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from penstock.client.items.failures import TransactionFailed
from penstock.client.items.values import Item
from penstock.jobs.app import App
from penstock.jobs.model.job import RetryIn
from penstock.jobs.tasks import Task
from penstock.jobs.worker.worker import Worker
from penstock.retry import RetryPolicy
from penstock.systems.construction_expenses.books import DAY_SECONDS, Books
from penstock.systems.construction_expenses.webhooks import signatures, webhook_record
from penstock.systems.construction_expenses.webhooks.intake import Handler, Intake
from penstock.systems.construction_expenses.webhooks.paddle import handle
from penstock.systems.construction_expenses.webhooks.signatures import SIGNATURE_FIELD, TOLERANCE_SECONDS, PaddleKeys
from penstock.systems.construction_expenses.webhooks.webhook import BadWebhook, Webhook, webhook_of
from penstock.webhooks import BadSignature

BODY_BYTES: Final = 128 * 1024
"""Paddle's have a few KB. It is stored as it came and as it was read, which takes 1.5 times as much at most: so there
are 70 KB left in its item for the history of its attempts."""

TASK: Final = "construction-expenses.webhook"
LEASE_SECONDS: Final = 10.0
"""Handling takes milliseconds: what a dead process held is handled soon after."""
_FORM: Final = "application/x-www-form-urlencoded"
_RETRIES: Final = RetryPolicy(1_000, cap_seconds=60)
"""Of the job, for a database that is away: the webhook's own attempts are counted in its record."""
_MAX_CRASHES: Final = webhook_record.MAX_RETRIES + 5
"""The record gives up first, with a dead letter."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What Paddle is told."""

    webhook_id: str
    is_new: bool


class Receiver:
    """Receives for one environment's books; `worker` handles what was received, here or in another process."""

    def __init__(
        self,
        books: Books,
        keys: PaddleKeys,
        *,
        handler: Handler = handle,
        tolerance_seconds: float = TOLERANCE_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self.books = books
        self.keys = keys
        self._tolerance_seconds = tolerance_seconds
        self._intake = Intake(books, handler, wait=None, lease_seconds=lease_seconds)
        # Beside the webhooks' table, as the reports' work is (decision 10): each environment has its own.
        self.app = App(books.db, table=f"{books.webhooks.name}-work", keep_seconds=DAY_SECONDS, clock=books.clock)

        @self.app.task(TASK, retries=_RETRIES, lease_seconds=lease_seconds, max_crashes=_MAX_CRASHES)
        def handle_webhook(webhook_id: str) -> dict[str, Any]:
            return self._handle(webhook_id)

        self._task = handle_webhook

    # ── receiving ────────────────────────────────────────────────────────────────────────────────

    def accept(self, body: bytes, content_type: str, signature: str | None) -> Acknowledgement:
        """Records a webhook and enqueues its job (2). Raises BadSignature, BadWebhook, WebhookDiffers."""
        webhook = self._verify(body, content_type, signature)
        record = self._record(webhook, body, signature)
        webhooks = self.books.webhooks
        try:
            with self.books.db.transaction() as transaction:
                transaction.put(webhooks.table, record, if_=webhooks.absent())
                transaction.enqueue(self._job(webhook.webhook_id), webhook.webhook_id)
        except TransactionFailed:
            known = webhooks.get(webhook.webhook_id, consistent=True)
            if known is None:
                raise
            webhook_record.check_same_event(known, webhook)
            if known["status"] in (webhook_record.QUEUED, webhook_record.PROCESSING):
                # It may have been recorded by a command, without a job.
                self._job(webhook.webhook_id).enqueue(webhook.webhook_id)
            return Acknowledgement(webhook.webhook_id, is_new=False)
        return Acknowledgement(webhook.webhook_id, is_new=True)

    def _verify(self, body: bytes, content_type: str, signature: str | None) -> Webhook:
        now = self.books.clock.now()
        if signature is not None:
            signatures.verify_billing(body, signature, self.keys.secrets, now, self._tolerance_seconds)
            return _billing_webhook(body)
        if content_type.partition(";")[0].strip().lower() != _FORM:
            raise BadSignature("The request has no Paddle-Signature header, and is no form of Paddle Classic.")
        fields = signatures.classic_fields(body)
        signatures.verify_classic(fields, self.keys.rsa_keys)
        webhook = _classic_webhook(fields)
        if webhook.occurred_at is None:
            raise BadWebhook("an alert of Paddle Classic has an event_time; this one has none")
        signatures.check_age(datetime.fromisoformat(webhook.occurred_at).astimezone(UTC).timestamp(), now)
        return webhook

    def _record(self, webhook: Webhook, body: bytes, signature: str | None) -> Item:
        record = webhook_record.new_record(webhook, self.books.clock.now()) | {"rawBody": body.decode()}
        if signature is not None:
            record["signature"] = signature
        return self.books.webhooks.prepare_item(record)

    def _job(self, webhook_id: str) -> Task[[str], dict[str, Any]]:
        return self._task.options(idempotency_key=webhook_id)

    # ── handling ─────────────────────────────────────────────────────────────────────────────────

    def _handle(self, webhook_id: str) -> dict[str, Any]:
        receipt = self._intake.proceed(webhook_id)
        if receipt is None:
            return {"webhook_id": webhook_id, "outcome": "expired"}
        if receipt.outcome in ("waiting", "elsewhere"):
            due_in = self._intake.due_in_seconds(webhook_id) or 0.0
            raise RetryIn(due_in, f"{receipt.outcome}: {receipt.reason or 'another process has it'}")
        return asdict(receipt)

    def worker(self, **settings: Any) -> Worker:
        """A worker that handles what was received; `settings` are those of `penstock.Worker`."""
        return Worker(self.app, **settings)


def _billing_webhook(body: bytes) -> Webhook:
    try:
        return webhook_of(orjson.loads(body))
    except orjson.JSONDecodeError as error:
        raise BadWebhook(f"the body is signed, and no JSON: {error}") from None


def _classic_webhook(fields: Mapping[bytes, bytes]) -> Webhook:
    try:
        form = {name.decode(): value.decode() for name, value in fields.items()}
    except UnicodeDecodeError:
        raise BadWebhook("the form is signed, and not in UTF-8") from None
    return webhook_of({name: value for name, value in form.items() if name != SIGNATURE_FIELD})
