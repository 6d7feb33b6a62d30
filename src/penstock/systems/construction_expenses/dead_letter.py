"""An entry of the dead-letter table: a webhook that failed for good, with all that is needed to try it again.

pending ──► replayed       it was tried again, and is done
   └──────► failed         it was tried again in vain; it can be tried once more
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from penstock.client.items.values import Item
from penstock.systems.construction_expenses import webhook_record
from penstock.systems.construction_expenses.webhook import Webhook

Status = Literal["pending", "replayed", "failed"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)

ATTRIBUTES: Final = (
    "dlqEntryId",
    "webhookId",
    "eventType",
    "payload",
    "failureReason",
    "retryCount",
    "maxRetries",
    "firstFailedAt",
    "lastFailedAt",
    "status",
    "processingHistory",
    "ttl",
)
"""What an entry has: these, and nothing else."""


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
        "maxRetries": webhook_record.MAX_RETRIES,
        "firstFailedAt": record["firstFailedAt"],
        "lastFailedAt": record["lastFailedAt"],
        "status": status,
        "processingHistory": record["processingHistory"],
        "ttl": expires_at,
    }


def record_of(entry: Item, now: float) -> Item:
    """The record of an entry's webhook, made anew: records live for 90 days, entries for 180."""
    webhook = Webhook(entry["webhookId"], entry["eventType"], entry["payload"])
    return webhook_record.new_record(webhook, now) | {
        "status": webhook_record.FAILED,
        "attempts": max((int(one["attempt"]) for one in entry["processingHistory"]), default=0),
        "retryCount": entry["retryCount"],
        "processingHistory": entry["processingHistory"],
        "firstFailedAt": entry["firstFailedAt"],
        "lastFailedAt": entry["lastFailedAt"],
        "failureReason": entry["failureReason"],
        "dlqEntryId": entry["dlqEntryId"],
    }
