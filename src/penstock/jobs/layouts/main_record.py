"""A job's main record: the job as an item, and back.

Every job is written and read so a few times in its life, and short ones have little else to pay for: what a record
does not have costs nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

import orjson

from penstock.clock import utc_seconds, utc_text
from penstock.jobs.layouts.attributes import error_of, error_value, number_text, payload_of, payload_value
from penstock.jobs.layouts.layout import WRITE_NAME, Item, claim_place, shard_of
from penstock.jobs.model.job import DEFAULT_PRIORITY, Event, Job, Payload, made
from penstock.jobs.model.state import State
from penstock.leases import Lease

_MAIN: Final = {"S": "main"}
_REMEMBERED: Final = 4_096
"""Events are written again with each change of their job's main record."""


# ── to an item ───────────────────────────────────────────────────────────────────────────────────


def item_of(job: Job, shards: int) -> Item:
    shard = shard_of(job.id, shards)
    state = job.state._value_
    created, tenant = utc_text(job.created_at), job.tenant
    item: Item = {
        **job.others,
        "job_id": {"S": job.id},
        "record": _MAIN,
        "task": {"S": job.task},
        "state": {"S": state},
        "created_at": {"S": created},
        "updated_at": {"S": utc_text(job.updated_at)},
        "run_at": {"S": utc_text(job.run_at)},
        "ttl": {"N": str(job.expires_at)},
        "queue": {"S": job.queue},
        "args": payload_value(job.args),
        "version": {"N": str(job.version)},
        "state_shard": {"S": f"{tenant}#{state}#{shard}"},
        "task_shard": {"S": f"{tenant}#{job.task}#{shard}"},
        "time_shard": {"S": f"{tenant}#{shard}"},
        "listed_at": {"S": f"{created}#{job.id}"},
    }
    place = claim_place(job)
    if place is not None:
        item["claim_pool"] = {"S": f"{job.queue}#{place[0]}#{shard}"}
        item["claim_order"] = {"S": place[1]}
    if job.events:
        item["events"] = {"L": [{"S": _event_text(event)} for event in job.events]}
    _add_counts(item, job)
    _add_options(item, job)
    _add_outcome(item, job)
    return item


def _add_counts(item: Item, job: Job) -> None:
    if job.token:
        item["lease_token"] = {"N": str(job.token)}
        item["attempt"] = {"N": str(job.attempt)}
    if job.failures:
        item["failures"] = {"N": str(job.failures)}
    if job.crashes:
        item["crashes"] = {"N": str(job.crashes)}
    if job.entries:
        item["entries"] = {"N": str(job.entries)}
    if job.entries or job.progress:
        item["progress"] = {"N": number_text(job.progress)}
    if job.lease is not None:
        item["lease_owner"] = {"S": job.lease.owner}
        item["lease_until"] = {"S": utc_text(job.lease.until)}
        item["lease_seconds"] = {"N": number_text(job.lease.seconds)}


def _add_options(item: Item, job: Job) -> None:
    if job.tenant:
        item["tenant"] = {"S": job.tenant}
    if job.priority != DEFAULT_PRIORITY:
        item["priority"] = {"N": str(job.priority)}
    if job.retries:
        item["retries"] = {"N": str(job.retries)}
    if job.depends_on:
        item["after"] = {"L": [{"S": one} for one in job.depends_on]}
    if job.waiting_for:
        item["waiting_for"] = {"SS": sorted(job.waiting_for)}
    if job.unregistered:
        item["unregistered"] = {"BOOL": True}
    if job.has_children:
        item["has_children"] = {"BOOL": True}
    if job.unique_key is not None:
        item["unique"] = {"S": job.unique_key}
    if job.concurrency_key is not None:
        item["limit_key"] = {"S": job.concurrency_key}
        item["limit"] = {"N": str(job.max_concurrent)}


def _add_outcome(item: Item, job: Job) -> None:
    if job.step:
        item["step"] = {"S": job.step}
    if job.started_at is not None:
        item["started_at"] = {"S": utc_text(job.started_at)}
    if job.ended_at is not None:
        item["ended_at"] = {"S": utc_text(job.ended_at)}
    if job.result is not None:
        item["result"] = payload_value(job.result)
    if job.cancel_reason is not None:
        item["cancel_reason"] = {"S": job.cancel_reason}
    if job.error is not None:
        item["error"] = error_value(job.error)


@lru_cache(_REMEMBERED)
def _event_text(event: Event) -> str:
    form: dict[str, Any] = {"number": event.number, "type": event.type, "at": utc_text(event.at)}
    form["attempt"] = event.attempt
    if event.owner:
        form["owner"] = event.owner
    if event.detail:
        form["detail"] = event.detail
    return orjson.dumps(form).decode()


# ── from an item ─────────────────────────────────────────────────────────────────────────────────


def job_of(item: Item) -> Job:
    state: str = item["state"]["S"]
    fields: dict[str, Any] = {
        **_ABSENT,
        "id": item["job_id"]["S"],
        "task": item["task"]["S"],
        "state": _STATES.get(state) or State(state),
        "created_at": utc_seconds(item["created_at"]["S"]),
        "updated_at": utc_seconds(item["updated_at"]["S"]),
        "run_at": utc_seconds(item["run_at"]["S"]),
        "expires_at": int(item["ttl"]["N"]),
        "queue": item["queue"]["S"],
        "args": payload_of(item["args"]),
        "version": int(item["version"]["N"]),
        "others": {},
    }
    if not _ALWAYS.issuperset(item):
        _add_rest(fields, item)
    return made(fields)


def _add_rest(fields: dict[str, Any], item: Item) -> None:
    others: Item = fields["others"]
    for name, value in item.items():
        if name in _ALWAYS:
            continue
        field = _FIELDS.get(name)
        if field is not None:
            fields[_RENAMED.get(name, name)] = field(value)
        elif name not in _OF_LEASE:
            others[name] = value
    if "lease_token" in item:
        fields["token"] = _whole(item["lease_token"])
    if "lease_owner" in item:
        seconds, until = float(item["lease_seconds"]["N"]), utc_seconds(item["lease_until"]["S"])
        fields["lease"] = Lease(item["lease_owner"]["S"], fields["token"], until, seconds)


def _whole(value: Mapping[str, str]) -> int:
    return int(float(value["N"]))


def _number(value: Mapping[str, str]) -> float:
    return float(value["N"])


def _time(value: Mapping[str, str]) -> float:
    return utc_seconds(value["S"])


def _texts(value: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(one["S"] for one in value["L"])


def _set(value: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(value["SS"])


def _is_there(value: Mapping[str, Any]) -> bool:
    return True


def _events(value: Mapping[str, Any]) -> tuple[Event, ...]:
    return tuple([_event_from(one["S"]) for one in value["L"]])


@lru_cache(_REMEMBERED)
def _event_from(text: str) -> Event:
    form = orjson.loads(text)
    at = utc_seconds(form["at"])
    return Event(form["number"], form["type"], at, form["attempt"], form.get("owner", ""), form.get("detail", ""))


_STATES: Final = {state.value: state for state in State}

_text: Final = itemgetter("S")
_FIELDS: Final[Mapping[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("tenant", "step", "cancel_reason", "unique", "limit_key"), _text),
    **dict.fromkeys(("priority", "retries", "attempt", "failures", "crashes", "entries", "limit"), _whole),
    **dict.fromkeys(("started_at", "ended_at"), _time),
    **dict.fromkeys(("unregistered", "has_children"), _is_there),
    "progress": _number,
    "result": payload_of,
    "error": error_of,
    "waiting_for": _set,
    "after": _texts,
    "events": _events,
}
"""The attributes that a record may lack."""

_RENAMED: Final = {
    "after": "depends_on",
    "unique": "unique_key",
    "limit_key": "concurrency_key",
    "limit": "max_concurrent",
}
"""Attributes that are not called like the job's field: tables are older than the field's name."""

_OF_LEASE: Final = frozenset({"lease_owner", "lease_token", "lease_until", "lease_seconds"})
_ALWAYS: Final = frozenset(
    {
        *("job_id", "record", "task", "state", "created_at", "updated_at", "run_at", "ttl", "queue", "args", "version"),
        *("state_shard", "task_shard", "time_shard", "listed_at", "claim_pool", "claim_order", WRITE_NAME),
    }
)
"""What nearly every record has, and nothing is left to be read of."""

_ABSENT: Final = {
    name: value
    for name, value in vars(Job("", "", State.QUEUED, 0.0, 0.0, 0.0, 0, args=Payload("{}"))).items()
    if name in _FIELDS or name in ("token", "lease", *_RENAMED.values())
}
"""What a job is where its record does not say."""
