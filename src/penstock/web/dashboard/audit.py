"""Who has changed what by the dashboard, and when: lines in the table of jobs that expire after 90 days.

The lines of a month are one item collection, `audit#2026-11`: no job's id has a #.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from penstock.clock import utc_seconds, utc_text
from penstock.errors import PenstockError
from penstock.jobs.store.store import JobStore

_LOG: Final = logging.getLogger("penstock.web")

KEPT_SECONDS: Final = 90 * 86_400
_MONTHS_READ: Final = 4
_LONGEST: Final = 500


@dataclass(frozen=True, slots=True)
class AuditLine:
    at: float
    who: str
    what: str
    about: str
    """The id of a job, or the name of a queue or a schedule."""


def record(store: JobStore, who: str, what: str, about: str) -> None:
    """Writes a line after a change. If that fails, the change stays: it is done already."""
    now = store.clock.now()
    key = store.layout.record_get(_collection(now), f"{utc_text(now)}#{secrets.token_hex(3)}").request["Key"]
    texts = {"who": who, "what": what[:_LONGEST], "about": about[:_LONGEST]}
    item = {**key, store.layout.ttl_name: {"N": str(int(now) + KEPT_SECONDS)}}
    item |= {name: {"S": text} for name, text in texts.items() if text}
    try:
        store.db.execute("PutItem", {"TableName": store.layout.table, "Item": item})
    except PenstockError as error:
        _LOG.warning("%s did %r to %s; the line of the activity log could not be written: %s", who, what, about, error)


def newest(store: JobStore, limit: int) -> list[AuditLine]:
    lines: list[AuditLine] = []
    for month in _months(store.clock.now()):
        call = store.layout.records(month, "")
        request = {**call.request, "ScanIndexForward": False, "Limit": limit - len(lines)}
        for item in store.db.execute(call.operation, request)["Items"]:
            at = utc_seconds(item["record"]["S"].partition("#")[0])
            lines.append(AuditLine(at, *(item.get(name, {}).get("S", "") for name in ("who", "what", "about"))))
        if len(lines) >= limit:
            break
    return lines


def _collection(at: float) -> str:
    return f"audit#{utc_text(at)[:7]}"


def _months(now: float) -> Iterator[str]:
    """This month and those before it, in which lines may be left."""
    year, month = (int(part) for part in utc_text(now)[:7].split("-"))
    for _ in range(_MONTHS_READ):
        yield f"audit#{year:04d}-{month:02d}"
        year, month = (year, month - 1) if month > 1 else (year - 1, 12)
