"""What a whole plan takes: time and money, and what of it is not known. Everything here is pure.

1. Tables change side by side, the changes of one table in turn: the plan takes as long as its longest table.
2. Money is at most so much: an index is taken to hold every item whole, for nobody knows how many it will have.
3. What cannot be computed from item counts, sizes and definitions is named, never guessed: requests above all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

from penstock.client.wrappers.metering import DEFAULT_PRICES
from penstock.tables.definitions.definition import Billing, Index, Throughput, VectorIndex
from penstock.tables.plan.changes import (
    AddIndex,
    Blocks,
    Change,
    CreateTable,
    DropIndex,
    Fills,
    SetIndexWarm,
    SetPitr,
    SetSse,
    SetTableClass,
    SetWarm,
    UpdateBilling,
    UpdateIndexThroughput,
    UpdateThroughput,
    about,
    describe,
)
from penstock.tables.plan.survey import Survey, TableSurvey

GB: Final = 1024**3
HOURS: Final = 730
"""In a month, as AWS counts."""


@dataclass(frozen=True, slots=True)
class MonthlyPrices:
    """Of tables of the standard class, in US dollars. Prices change: this is data, with its date and region."""

    read_unit_hour: Decimal = Decimal("0.00013")
    write_unit_hour: Decimal = Decimal("0.00065")
    storage_gb: Decimal = Decimal("0.25")
    recovery_gb: Decimal = Decimal("0.20")
    region: str = DEFAULT_PRICES.region
    as_of: str = DEFAULT_PRICES.as_of

    def capacity(self, units: Throughput | None) -> Decimal:
        """A month of provisioned capacity."""
        if units is None:
            return Decimal(0)
        return HOURS * (units.read * self.read_unit_hour + units.write * self.write_unit_hour)


PRICES: Final = MonthlyPrices()
SMALL_BYTES: Final = GB // 100
"""A table below this costs less than a cent a month: there is no need to speak of what is not known of it."""

When = Literal["once", "monthly"]


@dataclass(frozen=True, slots=True)
class Amount:
    """Dollars for one change; less than nothing is saved."""

    table: str
    change: str
    when: When
    what: str
    dollars: Decimal


@dataclass(frozen=True, slots=True)
class Estimate:
    seconds: float
    """Of the table that takes longest, as far as it can be computed."""
    waits: tuple[str, ...]
    """What DynamoDB takes its own time for: `jobs: ~ capacity …`."""
    amounts: tuple[Amount, ...]
    unknown: tuple[str, ...]
    """What costs something, or saves it, and cannot be computed."""

    def dollars(self, when: When) -> Decimal:
        return sum((one.dollars for one in self.amounts if one.when == when), Decimal(0))

    @property
    def is_worth_saying(self) -> bool:
        """Whether it says more than the changes' own lines."""
        return self.seconds >= 5 or bool(self.waits or self.unknown or self._has_money)

    @property
    def _has_money(self) -> bool:
        return any(abs(self.dollars(when)) >= Decimal("0.005") for when in ("once", "monthly"))

    @property
    def lines(self) -> tuple[str, ...]:
        """`Time: about 40 s. …`, `Money: …`, for people; none where there is nothing to say."""
        return (*self._time_lines(), *self._money_lines())

    def _time_lines(self) -> Iterator[str]:
        if self.seconds >= 5 or self.waits:
            more = f", and DynamoDB's own time for {_together(self.waits)}" if self.waits else ""
            yield f"Time: {about(self.seconds)}{more}. Tables change side by side."

    def _money_lines(self) -> Iterator[str]:
        if self._has_money:
            parts = []
            once, monthly = self.dollars("once"), self.dollars("monthly")
            if once >= Decimal("0.005"):
                parts.append(f"at most {_dollars(once)} once")
            if abs(monthly) >= Decimal("0.005"):
                parts.append(f"{'at most ' if monthly > 0 else ''}{_dollars(abs(monthly))} {_more(monthly)} a month")
            yield f"Money: {', '.join(parts)} (AWS list prices, {PRICES.region}, {PRICES.as_of})."
        if self.unknown:
            yield f"Money that is not known: {_together(self.unknown)}."

    def form(self) -> dict[str, Any]:
        """For programs."""
        return {
            "seconds": round(self.seconds, 1),
            "waits": list(self.waits),
            "dollars_once": _round(self.dollars("once")),
            "dollars_monthly": _round(self.dollars("monthly")),
            "amounts": [
                {
                    "table": one.table,
                    "change": one.change,
                    "when": one.when,
                    "what": one.what,
                    "dollars": _round(one.dollars),
                }
                for one in self.amounts
            ],
            "unknown": list(self.unknown),
            "prices": {"region": PRICES.region, "as_of": PRICES.as_of},
        }


def _together(texts: tuple[str, ...]) -> str:
    """`jobs: a; keys: b`; what is the same of several tables is said once: `jobs, keys: a`."""
    tables: dict[str, list[str]] = {}
    for text in texts:
        table, _, what = text.partition(": ")
        tables.setdefault(what, []).append(table)
    return "; ".join(f"{', '.join(dict.fromkeys(several))}: {what}" for what, several in tables.items())


def _more(dollars: Decimal) -> str:
    return "more" if dollars > 0 else "less"


def _round(dollars: Decimal) -> float:
    return float(round(dollars, 4))


def _dollars(dollars: Decimal) -> str:
    return f"${dollars:,.2f}"


def estimate(survey: Survey) -> Estimate:
    """What the whole plan takes. A table that is refused takes nothing."""
    seconds, waits = [0.0], []
    amounts: list[Amount] = []
    unknown: list[str] = []
    for table in survey.tables:
        if table.plan.refusal is not None:
            continue
        seconds.append(sum(cost.seconds for _, cost in table.plan.priced if isinstance(cost, Fills)))
        for change, cost in table.plan.priced:
            if isinstance(cost, Blocks):
                waits.append(f"{table.name}: {describe(change)}")
            amounts += [one for one in _amounts(table, change) if one.dollars]
            unknown += [f"{table.name}: {text}" for text in _unknown(table, change)]
    return Estimate(max(seconds), tuple(waits), tuple(amounts), tuple(unknown))


def _amounts(table: TableSurvey, change: Change) -> Iterator[Amount]:
    def monthly(what: str, dollars: Decimal) -> Amount:
        return Amount(table.name, describe(change), "monthly", what, dollars)

    match change:
        case CreateTable(made):
            if isinstance(made.billing, Throughput):  # on demand, it costs what it is used for
                yield monthly("capacity", PRICES.capacity(made.billing) + _index_capacity(made.global_indexes))
        case AddIndex(VectorIndex()) | DropIndex(VectorIndex()):
            pass  # billed by the bytes that are written and searched: `_unknown` says so
        case AddIndex(Index() as index):
            if index.throughput is None:
                dollars = DEFAULT_PRICES.cost(0, _fill_units(table))
                yield Amount(table.name, describe(change), "once", "writes of the index", dollars)
            yield monthly("capacity", PRICES.capacity(index.throughput))
            yield monthly("storage", _bytes(table) * PRICES.storage_gb / GB)
        case DropIndex(Index() as index):
            yield monthly("capacity", -PRICES.capacity(index.throughput))
        case UpdateThroughput(units, was):
            yield monthly("capacity", PRICES.capacity(units) - PRICES.capacity(was))
        case UpdateIndexThroughput(_, units, was):
            yield monthly("capacity", PRICES.capacity(units) - PRICES.capacity(was))
        case UpdateBilling(billing, was, indexes):
            after = _units(billing) + sum((PRICES.capacity(units) for _, units in indexes), Decimal(0))
            before = _units(was) + (_index_capacity(_live_indexes(table)) if isinstance(was, Throughput) else 0)
            yield monthly("capacity", after - before)
        case SetPitr(days, was) if bool(days) != bool(was):
            dollars = _bytes(table) * PRICES.recovery_gb / GB
            yield monthly("point-in-time recovery", dollars if days else -dollars)
        case _:
            pass


def _unknown(table: TableSurvey, change: Change) -> Iterator[str]:
    match change:
        case UpdateBilling(billing):
            yield f"requests, which are billed {'from then on' if billing == 'on-demand' else 'no more'}"
        case AddIndex(VectorIndex()):
            yield "the vector index, which is billed by the bytes that are written to it and searched in it"
        case DropIndex(index):
            if _bytes(table) >= SMALL_BYTES:
                yield f"what index {index.name} stored, and is saved"
        case SetWarm() | SetIndexWarm():
            yield "warm throughput, which has a price of its own"
        case SetTableClass():
            yield "the other table class, with prices of its own"
        case SetSse(sse) if sse:
            yield "requests to KMS"
        case AddIndex() if _bytes(table) >= SMALL_BYTES:
            yield "later writes, each of which is also one of the new index"
        case _:
            pass


def _index_capacity(indexes: tuple[Index, ...]) -> Decimal:
    return sum((PRICES.capacity(index.throughput) for index in indexes), Decimal(0))


def _units(billing: Billing) -> Decimal:
    return PRICES.capacity(billing if isinstance(billing, Throughput) else None)


def _live_indexes(table: TableSurvey) -> tuple[Index, ...]:
    return () if table.live is None else table.live.table.global_indexes


def _bytes(table: TableSurvey) -> int:
    return 0 if table.live is None else table.live.facts.bytes


def _fill_units(table: TableSurvey) -> int:
    """Write units of an index that gets every item: one for each KB of an average one."""
    if table.live is None or not table.live.facts.items:
        return 0
    facts = table.live.facts
    return facts.items * max(1, math.ceil(facts.bytes / facts.items / 1024))
