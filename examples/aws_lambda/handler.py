"""The function's handler: works jobs until none is due or its time is nearly up. What it has not finished is requeued.

Run it by a schedule (EventBridge, `rate(1 minute)`), or invoke it asynchronously after `enqueue`. Two invocations at
the same time are two workers: they share the jobs.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Protocol

import penstock

from tasks import app


class LambdaContext(Protocol):
    def get_remaining_time_in_millis(self) -> int: ...


def handle(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    """How many jobs have ended how."""
    worker = penstock.Worker(
        app,
        burst=True,  # ends when no job is due
        concurrency=4,
        time_limit_seconds=context.get_remaining_time_in_millis() / 1_000,  # takes no job in the last of it
    )
    return asdict(worker.run())
