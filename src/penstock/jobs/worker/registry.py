"""Which workers there are, and which schedules have fired: two small items beside the jobs.

A worker writes down what it can do and that it lives, every ten seconds. One that has not for a minute is taken for
gone, and its line is removed by whoever sees it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from penstock.client.database import Database
from penstock.clock import utc_seconds, utc_text
from penstock.errors import ValidationException
from penstock.jobs.layouts.item_collection import number_text
from penstock.jobs.layouts.layout import Layout
from penstock.jobs.store.side_items import SideItems

BEAT_SECONDS: Final = 10.0
GONE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    name: str
    started_at: float
    seen_at: float
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    concurrency: int
    running: int
    done: int
    read_units: float
    """What looking for jobs has cost it."""

    def is_alive(self, now: float) -> bool:
        return now - self.seen_at < GONE_SECONDS


@dataclass(frozen=True, slots=True)
class Firing:
    """When a schedule was first seen, or last fired."""

    schedule: str
    at: float


class WorkerRegistry:
    """The two items; each is a map with one entry for each worker or schedule."""

    def __init__(self, db: Database, layout: Layout) -> None:
        self._items = SideItems(db, layout.table, layout.main_key)

    def beat(self, worker: WorkerInfo) -> None:
        value = {
            "started_at": {"S": utc_text(worker.started_at)},
            "seen_at": {"S": utc_text(worker.seen_at)},
            "queues": {"L": [{"S": one} for one in worker.queues]},
            "tasks": {"L": [{"S": one} for one in worker.tasks]},
            "concurrency": {"N": str(worker.concurrency)},
            "running": {"N": str(worker.running)},
            "done": {"N": str(worker.done)},
            "read_units": {"N": number_text(worker.read_units)},
        }
        self._set("workers", worker.name, {"M": value})

    def leave(self, worker: str) -> None:
        self._remove("workers", worker)

    def workers(self, now: float, *, tidy: bool = True) -> list[WorkerInfo]:
        """Those that live, the oldest first. Without `tidy` nothing is written: the lines of the dead stay."""
        found = [_worker_of(name, value["M"]) for name, value in self._entries("workers").items()]
        for worker in found:
            if tidy and not worker.is_alive(now):
                self._remove("workers", worker.name)
        return sorted((one for one in found if one.is_alive(now)), key=lambda one: (one.started_at, one.name))

    def record_firing(self, firing: Firing) -> None:
        self._set("schedules", firing.schedule, {"S": utc_text(firing.at)})

    def firings(self) -> dict[str, Firing]:
        return {name: Firing(name, utc_seconds(value["S"])) for name, value in self._entries("schedules").items()}

    def _entries(self, item: str) -> dict[str, Any]:
        found = self._items.read(item) or {}
        entries: dict[str, Any] = found.get("entries", {}).get("M", {})
        return entries

    def _set(self, item: str, name: str, value: dict[str, Any]) -> None:
        names, values = {"#entries": "entries", "#name": name}, {":value": value}
        try:
            self._items.update(item, "SET #entries.#name = :value", names, values)
        except ValidationException:  # the map is not there yet; another worker may make it at this moment
            self._items.update(
                item,
                "SET #entries = if_not_exists(#entries, :empty)",
                {"#entries": "entries"},
                {":empty": {"M": {}}},
            )
            self._items.update(item, "SET #entries.#name = :value", names, values)

    def _remove(self, item: str, name: str) -> None:
        with suppress(ValidationException):  # there is no map, so there is nothing in it
            self._items.update(item, "REMOVE #entries.#name", {"#entries": "entries", "#name": name})


def _worker_of(name: str, value: dict[str, Any]) -> WorkerInfo:
    return WorkerInfo(
        name=name,
        started_at=utc_seconds(value["started_at"]["S"]),
        seen_at=utc_seconds(value["seen_at"]["S"]),
        queues=tuple(one["S"] for one in value["queues"]["L"]),
        tasks=tuple(one["S"] for one in value["tasks"]["L"]),
        concurrency=int(value["concurrency"]["N"]),
        running=int(value["running"]["N"]),
        done=int(value["done"]["N"]),
        read_units=float(value["read_units"]["N"]),
    )
