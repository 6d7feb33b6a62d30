"""The record of a webhook in its table, and how it changes: pure functions from an item to what is set in it.

    queued ──► processing ──► completed
      ▲            │
      │            ├──► queued       a transient error: after 1, 2, 4, 8, 16 seconds
      │            └──► failed       for good; an entry of the dead-letter table is made in the same transaction
      └──────────────────┘           replay

States change by the one table of all jobs (jobs/model/state.py).

1. Every change is conditional on the state and on the lease's token that were read (`fence`): of two that want to
   change a record, one does.
2. `attempts` and the token are counted when a record is taken, so that an attempt whose process died is counted too.
3. `processedAt` is there only when it is completed: the index of processed webhooks has no others.

An entry of the dead-letter table is a webhook that failed for good, with all that is needed to try it again:

    pending ──► replayed       it was tried again, and is done
       └──────► failed         it was tried again in vain; it can be tried once more
"""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

from penstock.client.items.expressions import Condition, F
from penstock.client.items.values import Item
from penstock.clock import utc_text
from penstock.jobs.model.state import State, target
from penstock.leases import Lease, grant
from penstock.retry import Backoff, Failure
from penstock.systems.construction_expenses.webhooks.webhook import Webhook, WebhookDiffers

BACKOFF: Final = Backoff(base_seconds=1.0, cap_seconds=16.0)
"""Without jitter: the seed waits for 1, 2, 4, 8 and 16 seconds."""
MAX_RETRIES: Final = 5

HISTORY_ENTRIES: Final = 100
"""The newest are kept: sixteen replays of six attempts each."""

QUEUED, PROCESSING, COMPLETED, FAILED = (
    state.value for state in (State.QUEUED, State.PROCESSING, State.COMPLETED, State.FAILED)
)

ABANDONED = Failure("Abandoned", "the process that had it ended, or took longer than its lease", retryable=True)

Changes = dict[str, Any]


def new_record(webhook: Webhook, now: float) -> Item:
    return {
        "webhookId": webhook.webhook_id,
        "alertName": webhook.event_type,
        "payload": webhook.payload,
        "status": QUEUED,
        "receivedAt": utc_text(now),
        "dueAt": now,
        "attempts": 0,
        "retryCount": 0,
        "processingHistory": [],
        "lease": {"owner": "", "token": 0, "until": 0, "seconds": 0},
    }


def webhook_in(record: Item) -> Webhook:
    return Webhook(record["webhookId"], record["alertName"], record["payload"])


def check_same_event(record: Item, webhook: Webhook) -> None:
    """Raises WebhookDiffers where the record is of another event.

    Paddle may send an event again as another notification: then its `notification_id` differs, and nothing else.
    """
    if _event_of(record["payload"]) != _event_of(webhook.payload):
        raise WebhookDiffers(webhook.webhook_id)


def _event_of(payload: Item) -> Item:
    return {name: value for name, value in payload.items() if name != "notification_id"}


def fence(record: Item) -> Condition:
    """Holds while nobody has changed the record's state since it was read."""
    state: Condition = F("status") == record["status"]
    token: Condition = F("lease", "token") == record["lease"]["token"]
    return state & token


def lease_of(record: Item) -> Lease:
    lease = record["lease"]
    return Lease(lease["owner"], int(lease["token"]), float(lease["until"]), float(lease["seconds"]))


def due_in_seconds(record: Item, now: float) -> float | None:
    """When it may be taken: 0 for now, None for never, as it has ended."""
    match record["status"]:
        case "queued":
            return max(0.0, float(record["dueAt"]) - now)
        case "processing":
            return max(0.0, lease_of(record).takeable_at - now)
        case _:
            return None


def is_spent(record: Item) -> bool:
    """Whether a record that its holder has left has no retry any more: it would kill one process after the other."""
    return bool(record["status"] == PROCESSING and record["retryCount"] >= MAX_RETRIES)


def started(record: Item, owner: str, now: float, lease_seconds: float) -> Changes:
    """Under a new lease. What its last holder left is an attempt that failed."""
    lease = grant(int(record["lease"]["token"]), owner, now, lease_seconds)
    changes: Changes = {"attempts": record["attempts"] + 1, "lease": _lease_form(lease)}
    if record["status"] != PROCESSING:
        return changes | _moved(record, "started")
    changes |= _failed_once(record, ABANDONED, now) | {"retryCount": record["retryCount"] + 1}
    return changes | _moved(record, "taken_over")


def renewed(record: Item, now: float) -> Changes:
    return {"lease": _lease_form(lease_of(record).renew(now))}


def completed(record: Item, now: float) -> Changes:
    entry = {"attempt": record["attempts"], "at": utc_text(now), "outcome": COMPLETED}
    changes = {"processedAt": utc_text(now), "processingHistory": _history(record, entry)}
    return changes | _moved(record, "completed")


def retrying(record: Item, failure: Failure, now: float) -> Changes:
    """Queued for its next attempt."""
    retries = int(record["retryCount"]) + 1
    changes = {"dueAt": now + BACKOFF.bound(retries), "retryCount": retries}
    return changes | _failed_once(record, failure, now) | _moved(record, "retrying")


def failed(record: Item, failure: Failure, now: float) -> Changes:
    return _failed_once(record, failure, now) | {"failureReason": failure.reason} | _moved(record, "failed")


def requeued(record: Item, now: float) -> Changes:
    """Queued as if it had not been taken: its holder was interrupted."""
    return {"dueAt": now, "attempts": record["attempts"] - 1} | _moved(record, "handed_over")


def retried(record: Item, now: float) -> Changes:
    """Queued for a replay, with all its retries."""
    return {"dueAt": now, "retryCount": 0} | _moved(record, "retried")


def _moved(record: Item, event: str) -> Changes:
    return {"status": target(record["webhookId"], State(record["status"]), event).value}


def _lease_form(lease: Lease) -> dict[str, Any]:
    return {"owner": lease.owner, "token": lease.token, "until": lease.until, "seconds": lease.seconds}


def may_retry(record: Item, failure: Failure) -> bool:
    return failure.retryable and record["retryCount"] < MAX_RETRIES


def _failed_once(record: Item, failure: Failure, now: float) -> Changes:
    entry = {
        "attempt": record["attempts"],
        "at": utc_text(now),
        "outcome": FAILED,
        "kind": failure.kind,
        "message": failure.message,
        "transient": failure.retryable,
    }
    if failure.code:
        entry["code"] = failure.code
    return {
        "processingHistory": _history(record, entry),
        "firstFailedAt": record.get("firstFailedAt", utc_text(now)),
        "lastFailedAt": utc_text(now),
    }


def _history(record: Item, entry: dict[str, Any]) -> list[Any]:
    return [*record["processingHistory"], entry][-HISTORY_ENTRIES:]


Status = Literal["pending", "replayed", "failed"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)


def entry_id_of(webhook_id: str) -> str:
    """One webhook has one entry, however often it fails."""
    return f"dlq_{webhook_id}"


def new_entry(record: Item, expires_at: int) -> Item:
    """The entry of a record that has failed; `failed` if it had one before."""
    status: Status = "failed" if "dlqEntryId" in record else "pending"
    return {
        "dlqEntryId": entry_id_of(record["webhookId"]),
        "webhookId": record["webhookId"],
        "eventType": record["alertName"],
        "payload": record["payload"],
        "failureReason": record["failureReason"],
        "retryCount": record["retryCount"],
        "maxRetries": MAX_RETRIES,
        "firstFailedAt": record["firstFailedAt"],
        "lastFailedAt": record["lastFailedAt"],
        "status": status,
        "processingHistory": record["processingHistory"],
        "ttl": expires_at,
    }


def record_of(entry: Item, now: float) -> Item:
    """The record of an entry's webhook, made anew: records live for 90 days, entries for 180."""
    webhook = Webhook(entry["webhookId"], entry["eventType"], entry["payload"])
    return new_record(webhook, now) | {
        "status": FAILED,
        "attempts": max((int(one["attempt"]) for one in entry["processingHistory"]), default=0),
        "retryCount": entry["retryCount"],
        "processingHistory": entry["processingHistory"],
        "firstFailedAt": entry["firstFailedAt"],
        "lastFailedAt": entry["lastFailedAt"],
        "failureReason": entry["failureReason"],
        "dlqEntryId": entry["dlqEntryId"],
    }
