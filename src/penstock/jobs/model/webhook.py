"""The delivery of a job's webhook, as a job to be made with its end."""

from __future__ import annotations

from typing import Any, Final

from penstock.clock import utc_text
from penstock.jobs.model.job import Job, NewJob, checked_name
from penstock.stored_text import cut

WEBHOOK_TASK: Final = "penstock.webhook"
"""The task that delivers webhooks, in every worker of an app that has a secret for them."""

WEBHOOK_RETRIES: Final = 10
"""After the first attempt; with the waits of jobs/webhooks.py, they take a day at most."""
MOST_TO_ONE_HOST: Final = 4
"""Deliveries that run at once, of all workers: each holds a thread, and one receiver may let all of them wait."""
_ID_BYTES: Final = 160
_MESSAGE_CHARACTERS: Final = 1_000


def delivery_of(ended: Job, retries: int) -> NewJob:
    """The delivery of this end, whose id is made of the job's and its version: each end has one.

    It is ASCII: it is sent in a header.
    """
    name = ended.id if ended.id.isascii() and len(ended.id) <= _ID_BYTES else _digest(ended.id)
    event: dict[str, Any] = {
        "job_id": ended.id,
        "task": ended.task,
        "state": ended.state.value,
        "attempts": ended.attempt,
        "created_at": utc_text(ended.created_at),
        "ended_at": utc_text(ended.ended_at or ended.updated_at),
    }
    if ended.tenant:
        event["tenant"] = ended.tenant
    if ended.error is not None:
        event["error"] = {"kind": ended.error.kind, "message": cut(ended.error.message, _MESSAGE_CHARACTERS)}
    if ended.cancel_reason:
        event["reason"] = ended.cancel_reason
    return NewJob(
        WEBHOOK_TASK,
        {"event": event},
        queue=ended.queue,
        tenant=ended.tenant,
        retries=retries,
        concurrency_key=_host_key(ended),
        max_concurrent=MOST_TO_ONE_HOST,
        id=checked_name(f"{name}.webhook.{ended.version}", "job"),
    )


def _digest(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode()).hexdigest()


def _host_key(ended: Job) -> str | None:
    """None for a URL that an older version took and this one does not: the delivery says what is wrong with it."""
    from penstock.webhooks import BadWebhook, parse_target  # most programs send none

    try:
        return f"{WEBHOOK_TASK} {parse_target(ended.webhook or '').host}"
    except BadWebhook:
        return None
