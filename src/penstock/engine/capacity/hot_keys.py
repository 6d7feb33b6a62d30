"""Heat: which keys and which partitions a run has used most.

1. Memory is bounded: of each table and index the heaviest keys are kept, by the space-saving method. A key that takes
   the place of another takes over its count too, as `over`: its true count lies between `units - over` and `units`.
   Every key with more than 1/KEYS of a resource's units is among those that are kept.
2. A process keeps its counts in memory; on a file, they are written into it each second and when it is closed.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from penstock.engine.storage.database_file import Connection
from penstock.errors import StorageError
from penstock.wire.throttles import Kind

KEYS = 200
PARTITIONS = 1_000
_LABEL_LENGTH = 120
_RUNS_KEPT = 50

_CREATE = (
    "CREATE TABLE IF NOT EXISTS heat "
    "(run TEXT PRIMARY KEY, started_at REAL NOT NULL, saved_at REAL NOT NULL, counts BLOB NOT NULL) WITHOUT ROWID"
)


@dataclass(slots=True)
class Count:
    """Units of one key, partition or resource."""

    reads: float = 0.0
    writes: float = 0.0
    throttled: int = 0
    over: float = 0.0

    @property
    def units(self) -> float:
        return self.reads + self.writes

    def add(self, kind: Kind, units: float) -> None:
        if kind == "Read":
            self.reads += units
        else:
            self.writes += units

    def merge(self, other: Count) -> None:
        self.reads += other.reads
        self.writes += other.writes
        self.throttled += other.throttled
        self.over += other.over

    def as_dict(self) -> dict[str, Any]:
        return {"reads": self.reads, "writes": self.writes, "throttled": self.throttled, "over": self.over}


class Sketch:
    """The heaviest keys of a stream of keys and units."""

    def __init__(self, size: int = KEYS) -> None:
        self._size = size
        self.counts: dict[str, Count] = {}

    def __getitem__(self, key: str) -> Count:
        """The count of a key, which may push the lightest one out."""
        found = self.counts.get(key)
        if found is None:
            found = self.counts[key] = self._room()
        return found

    def _room(self) -> Count:
        if len(self.counts) < self._size:
            return Count()
        lightest = min(self.counts, key=lambda key: self.counts[key].units)
        removed = self.counts.pop(lightest)
        return Count(removed.reads, removed.writes, 0, removed.units)


@dataclass(slots=True)
class ResourceHeat:
    """One table or index. Partitions are named by the first and last of their 64-bit hashes."""

    total: Count = field(default_factory=Count)
    keys: Sketch = field(default_factory=Sketch)
    partitions: dict[tuple[int, int], Count] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    """How often each of DynamoDB's reasons was given for a throttle."""

    def partition(self, bounds: tuple[int, int]) -> Count:
        if bounds not in self.partitions and len(self.partitions) >= PARTITIONS:
            del self.partitions[min(self.partitions, key=lambda known: self.partitions[known].units)]
        return self.partitions.setdefault(bounds, Count())


Resource = tuple[str, str]
"""A table and an index; "" for the table itself."""


class Heat:
    """The counts of one run. Its owner's lock guards it."""

    def __init__(self, started_at: float) -> None:
        self.started_at = started_at
        self.resources: dict[Resource, ResourceHeat] = {}

    def used(
        self, resource: Resource, kind: Kind, units: float, key: str | None, bounds: tuple[int, int] | None
    ) -> None:
        heat = self._of(resource)
        heat.total.add(kind, units)
        if key is not None:
            heat.keys[key[:_LABEL_LENGTH]].add(kind, units)
        if bounds is not None:
            heat.partition(bounds).add(kind, units)

    def throttled(
        self, resource: Resource, key: str | None, bounds: tuple[int, int] | None, reason: str | None = None
    ) -> None:
        heat = self._of(resource)
        heat.total.throttled += 1
        if reason is not None:
            heat.reasons[reason] += 1
        if key is not None:
            heat.keys[key[:_LABEL_LENGTH]].throttled += 1
        if bounds is not None:
            heat.partition(bounds).throttled += 1

    def _of(self, resource: Resource) -> ResourceHeat:
        return self.resources.setdefault(resource, ResourceHeat())

    def as_dict(self) -> dict[str, Any]:
        """As JSON: heaviest first."""
        resources = sorted(self.resources.items(), key=lambda pair: -pair[1].total.units)
        return {"started_at": self.started_at, "resources": [_report_of(name, heat) for name, heat in resources]}


def _report_of(resource: Resource, heat: ResourceHeat) -> dict[str, Any]:
    table, index = resource
    keys = sorted(heat.keys.counts.items(), key=lambda pair: -pair[1].units)
    partitions = sorted(heat.partitions.items(), key=lambda pair: -pair[1].units)
    return {
        "table": table,
        "index": index or None,
        **heat.total.as_dict(),
        "reasons": dict(heat.reasons.most_common()),
        "keys": [{"key": key, **count.as_dict()} for key, count in keys],
        "partitions": [{"low": f"{low:016x}", "high": f"{high:016x}", **c.as_dict()} for (low, high), c in partitions],
    }


def merged(runs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Several runs, each as `as_dict` gives it, as one."""
    runs = list(runs)
    together = Heat(min((run["started_at"] for run in runs), default=0.0))
    for run in runs:
        for resource in run["resources"]:
            heat = together._of((resource["table"], resource["index"] or ""))
            heat.total.merge(_count(resource))
            heat.reasons.update(resource.get("reasons", {}))  # older files have none
            for one in resource["keys"]:
                heat.keys[one["key"]].merge(_count(one))
            for one in resource["partitions"]:
                heat.partition((int(one["low"], 16), int(one["high"], 16))).merge(_count(one))
    return together.as_dict()


def _count(told: dict[str, Any]) -> Count:
    return Count(told["reads"], told["writes"], told["throttled"], told["over"])


# ── in the file ──────────────────────────────────────────────────────────────────────────────────


def save(db: Connection, run: str, now: float, told: dict[str, Any]) -> None:
    """Writes a run's counts; the oldest runs make room."""
    db.execute(_CREATE)
    db.execute(
        "INSERT OR REPLACE INTO heat (run, started_at, saved_at, counts) VALUES (?, ?, ?, ?)",
        (run, told["started_at"], now, orjson.dumps(told)),
    )
    db.execute(
        "DELETE FROM heat WHERE run NOT IN (SELECT run FROM heat ORDER BY started_at DESC LIMIT ?)", (_RUNS_KEPT,)
    )


def load(path: str) -> dict[str, Any] | None:
    """The latest run that a file has: the one that began last, with those of other processes that overlap it."""
    if not Path(path).is_file():
        raise StorageError(f"{path}: there is no such file. Name the one that `penstock serve --db` was given.")
    try:
        db = sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)
        try:
            rows = db.execute("SELECT started_at, saved_at, counts FROM heat ORDER BY started_at DESC").fetchall()
        finally:
            db.close()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return None
        raise StorageError(f"{path}: {error}.") from error
    except sqlite3.DatabaseError as error:
        raise StorageError(f"{path}: {error}. Name a file of Penstock's.") from error
    if not rows:
        return None
    return merged(orjson.loads(counts) for _, saved_at, counts in rows if saved_at >= rows[0][0])
