"""Metering: what calls cost, in capacity units and in money, by operation, table, index and label.

    meter = Meter()
    db = Metering(transport, meter)
    with meter.label("job_123"):
        db.execute("PutItem", …)
    print(meter.report(by=("label",)))

1. Every call of the data plane is asked for its consumed capacity, and the caller sees it only if the caller asked.
2. Units are DynamoDB's own; a call that failed reports none, and is counted as failed.
3. A label belongs to the context (thread, task) that it was set in.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal

from penstock.client.transports.base import Answer, AsyncTransport, Request, Transport
from penstock.client.wrappers.wrapper import (
    METERED,
    AsyncWrapper,
    Exchange,
    Inner,
    Wrapper,
    WrapperState,
    kind_of,
    short_name,
    tables_of,
)
from penstock.errors import PenstockError
from penstock.wire.throttles import Kind

_MEMBER = "ReturnConsumedCapacity"
_MOST_ROWS = 100_000
OTHER = "(other)"
"""The label of what came after so many rows that no further one is kept apart."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Of on-demand capacity, in US dollars a million units. Prices change: this is data, with its date."""

    read_per_million: Decimal = Decimal("0.125")
    write_per_million: Decimal = Decimal("0.625")
    region: str = "us-east-1"
    as_of: str = "2024-11-01"

    def cost(self, read_units: float, write_units: float) -> Decimal:
        spent = Decimal(str(read_units)) * self.read_per_million + Decimal(str(write_units)) * self.write_per_million
        return spent / 1_000_000


DEFAULT_PRICES = Prices()


@dataclass(frozen=True, slots=True)
class Place:
    """What units are counted by."""

    label: str
    operation: str
    table: str
    index: str


By = Literal["label", "operation", "table", "index"]


@dataclass(slots=True)
class Usage:
    calls: int = 0
    failed: int = 0
    read_units: float = 0.0
    write_units: float = 0.0

    def add(self, other: Usage) -> None:
        self.calls += other.calls
        self.failed += other.failed
        self.read_units += other.read_units
        self.write_units += other.write_units


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a report: its place, as far as the report tells places apart, and what was used there."""

    place: tuple[str, ...]
    usage: Usage
    cost: Decimal


@dataclass(frozen=True, slots=True)
class Report:
    """Rows, dearest first. `str()` is a small table; `as_dict()` is JSON's."""

    by: tuple[By, ...]
    rows: tuple[Row, ...]
    total: Row
    prices: Prices = field(default=DEFAULT_PRICES)

    def as_dict(self) -> dict[str, Any]:
        prices = self.prices
        return {
            "prices": {
                "read_per_million": str(prices.read_per_million),
                "write_per_million": str(prices.write_per_million),
                "region": prices.region,
                "as_of": prices.as_of,
            },
            "rows": [{**dict(zip(self.by, row.place, strict=True)), **_numbers(row)} for row in self.rows],
            "total": _numbers(self.total),
        }

    def __str__(self) -> str:
        heads = [*self.by, "calls", "failed", "read units", "write units", "cost $"]
        lines = [_cells(row) for row in (*self.rows, self.total)]
        widths = [max(len(line[column]) for line in (heads, *lines)) for column in range(len(heads))]
        texts = [
            "  ".join(
                cell.ljust(width) if column < len(self.by) else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in (heads, *lines)
        ]
        prices = self.prices
        note = (
            f"On-demand, {prices.region}, as of {prices.as_of}: "
            f"${prices.read_per_million} a million reads, ${prices.write_per_million} a million writes."
        )
        return "\n".join([*texts, note])


def _numbers(row: Row) -> dict[str, Any]:
    usage = row.usage
    return {
        "calls": usage.calls,
        "failed": usage.failed,
        "read_units": usage.read_units,
        "write_units": usage.write_units,
        "cost": str(row.cost),
    }


def _cells(row: Row) -> list[str]:
    usage = row.usage
    counts = [f"{usage.calls:,}", f"{usage.failed:,}", f"{usage.read_units:,.1f}", f"{usage.write_units:,.1f}"]
    return [*(part or "-" for part in row.place), *counts, f"{row.cost:.6f}"]


class Meter:
    """Adds up what wrapped transports used. Any number of them may share one; safe between threads."""

    def __init__(self, prices: Prices = DEFAULT_PRICES) -> None:
        self.prices = prices
        self._used: dict[Place, Usage] = {}
        self._lock = threading.Lock()
        self._label: ContextVar[str] = ContextVar("penstock_meter_label", default="")

    @contextmanager
    def label(self, label: str) -> Iterator[None]:
        """What is used inside is counted under this label; an inner label replaces an outer one."""
        token = self._label.set(label)
        try:
            yield
        finally:
            self._label.reset(token)

    def add(self, operation: str, table: str, index: str, usage: Usage) -> None:
        """Counts what one call used."""
        place = Place(self._label.get(), operation, table, index)
        with self._lock:
            if place not in self._used and len(self._used) >= _MOST_ROWS:
                place = replace(place, label=OTHER)
            self._used.setdefault(place, Usage()).add(usage)

    def units(self, label: str | None = None) -> Usage:
        """The sum of everything, or of one label."""
        total = Usage()
        with self._lock:
            for place, usage in self._used.items():
                if label is None or place.label == label:
                    total.add(usage)
        return total

    def report(self, by: Sequence[By] = ("label", "operation", "table", "index")) -> Report:
        """What was used so far, added up by these."""
        sums: dict[tuple[str, ...], Usage] = {}
        with self._lock:
            for place, usage in self._used.items():
                sums.setdefault(tuple(getattr(place, part) for part in by), Usage()).add(usage)
        rows = sorted(
            (self._row(place, usage) for place, usage in sums.items()), key=lambda row: (-row.cost, row.place)
        )
        total = self._row(("total", *[""] * (len(by) - 1)) if by else (), self.units())
        return Report(tuple(by), tuple(rows), total, self.prices)

    def reset(self) -> None:
        """Forgets what was counted."""
        with self._lock:
            self._used.clear()

    def _row(self, place: tuple[str, ...], usage: Usage) -> Row:
        return Row(place, usage, self.prices.cost(usage.read_units, usage.write_units))


def _table(operation: str, request: Request) -> str:
    return next(iter(tables_of(operation, request)), "")


def _usage(part: dict[str, Any], kind: Kind) -> Usage:
    """Reads and writes where the answer tells them apart, as transactions' do; else by the operation."""
    if "ReadCapacityUnits" in part or "WriteCapacityUnits" in part:
        return Usage(0, 0, part.get("ReadCapacityUnits", 0.0), part.get("WriteCapacityUnits", 0.0))
    units = part.get("CapacityUnits", 0.0)
    return Usage(0, 0, units, 0.0) if kind == "Read" else Usage(0, 0, 0.0, units)


class MeteringState(WrapperState[Inner]):
    def __init__(
        self, inner: Inner, meter: Meter | None = None, *, level: Literal["INDEXES", "TOTAL"] = "INDEXES"
    ) -> None:
        super().__init__(inner)
        self.meter = meter or Meter()
        self._level = level

    def _exchange(self, operation: str, request: Request) -> Exchange:
        metered, wanted = self._with_capacity(operation, request)
        try:
            answer: Answer = yield operation, metered
        except PenstockError:
            self.meter.add(operation, _table(operation, request), "", Usage(calls=1, failed=1))
            raise
        return self._count_answer(operation, request, answer, wanted)

    def _with_capacity(self, operation: str, request: Request) -> tuple[Request, bool]:
        """The request that tells what it costs, and whether the caller wants to know too."""
        if operation not in METERED or request.get(_MEMBER, "NONE") != "NONE":
            return request, True
        return {**request, _MEMBER: self._level}, False

    def _count_answer(self, operation: str, request: Request, answer: Answer, wanted: bool) -> Answer:
        consumed = answer.get("ConsumedCapacity")
        reports: list[dict[str, Any]] = consumed if isinstance(consumed, list) else [consumed] if consumed else []
        kind = kind_of(operation, request) or "Read"
        table = _table(operation, request) if not reports else short_name(str(reports[0].get("TableName", "")))
        self.meter.add(operation, table, "", Usage(calls=1))
        for report in reports:
            self._count(operation, report, kind)
        if not wanted:
            answer.pop("ConsumedCapacity", None)
        return answer

    def _count(self, operation: str, report: dict[str, Any], kind: Kind) -> None:
        table = short_name(str(report.get("TableName", "")))
        if "Table" not in report:
            self.meter.add(operation, table, "", _usage(report, kind))
            return
        self.meter.add(operation, table, "", _usage(report["Table"], kind))
        for group in ("LocalSecondaryIndexes", "GlobalSecondaryIndexes"):
            for index, part in (report.get(group) or {}).items():
                self.meter.add(operation, table, index, _usage(part, kind))


class Metering(MeteringState[Transport], Wrapper):
    """A transport that counts. `level` TOTAL does not tell indexes apart."""


class AsyncMetering(MeteringState[AsyncTransport], AsyncWrapper):
    """The same for asyncio."""
