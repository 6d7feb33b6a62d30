"""Events: the audit trail of jobs, kept for 7 days in a table of their own (S2.9)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from penstock.clock import utc_seconds, utc_text
from penstock.systems.security_assistant.job import DrawingJob, Item, plain
from penstock.systems.security_assistant.tables import EVENT_SORT_KEY

EventType = Literal["job_created", "agent_started", "agent_completed", "error_occurred"]
EVENT_TYPES: Final = get_args(EventType)
KEEP_EVENTS_SECONDS: Final = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Event:
    """`id` makes two events of one millisecond two items."""

    job_id: str
    company: str
    at: float
    id: str
    type: EventType
    agent: str = ""
    duration_ms: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sort_key(self) -> str:
        return f"{utc_text(self.at)}#{self.id}"

    @property
    def expires_at(self) -> int:
        return int(self.at) + KEEP_EVENTS_SECONDS

    def item(self) -> Item:
        item: Item = {
            "job_id": self.job_id,
            EVENT_SORT_KEY: self.sort_key,
            "event_type": self.type,
            "company_id": self.company,
            "details": dict(self.details),
            "ttl": self.expires_at,
        }
        if self.agent:
            item["agent_name"] = self.agent
        if self.duration_ms is not None:
            item["duration_ms"] = self.duration_ms
        return item


def new_event(
    job: DrawingJob,
    kind: EventType,
    now: float,
    message: str,
    *,
    agent: str = "",
    duration_ms: int | None = None,
    **details: Any,
) -> Event:
    told = {"message": message, **details}
    return Event(job.id, job.company, now, f"evt_{secrets.token_hex(6)}", kind, agent, duration_ms, told)


def event_of(raw: Mapping[str, Any]) -> Event:
    item = plain(raw)
    moment, _, event_id = item[EVENT_SORT_KEY].partition("#")
    return Event(
        job_id=item["job_id"],
        company=item.get("company_id", ""),
        at=utc_seconds(moment),
        id=event_id,
        type=item["event_type"],
        agent=item.get("agent_name", ""),
        duration_ms=item.get("duration_ms"),
        details=item.get("details") or {},
    )
