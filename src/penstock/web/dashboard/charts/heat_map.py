"""The heat map: which partitions and keys of a table are used most.

A row is the table or one of its indexes; its width is the range of a key's hashes. Each partition is a stretch of it:
the darker, the more units it has used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup, escape

from penstock.client.database import Database
from penstock.client.served_heat import NoHeat, read_heat
from penstock.engine.capacity import hot_keys

SHOWN_KEYS: Final = 12
SHADES: Final = 10
_TIMEOUT_SECONDS: Final = 3
_HASHES: Final = 1 << 64
_WIDTH: Final = 960
_ROW: Final = 34
_GAP: Final = 6

REASONS: Final = {
    "ProvisionedThroughputExceeded": ("more than was provisioned", "Provision more, or make the table on demand."),
    "KeyRangeThroughputExceeded": ("one partition is too hot", "Spread its keys: see the hottest keys."),
    "MaxOnDemandThroughputExceeded": ("more than the maximum that was set", "Raise the on-demand maximum."),
    "AccountLimitExceeded": ("more than the account may use", "Ask AWS for a higher quota."),
}


@dataclass(frozen=True, slots=True)
class Spot:
    """A key or a partition: its units, and how hot it is."""

    name: str
    reads: float
    writes: float
    throttled: int
    at_most: bool
    low: int = 0
    high: int = _HASHES - 1
    share: float = 0.0
    """Of the units of its table or index."""
    heat: float = 0.0
    """From 0 to 1, on one scale for the whole map."""

    @property
    def units(self) -> float:
        return self.reads + self.writes


@dataclass(frozen=True, slots=True)
class Reason:
    name: str
    count: int
    meaning: str
    mend: str


@dataclass(frozen=True, slots=True)
class Resource:
    """The table itself, or an index of it."""

    index: str
    reads: float
    writes: float
    throttled: int
    keys: tuple[Spot, ...]
    partitions: tuple[Spot, ...]
    reasons: tuple[Reason, ...]

    @property
    def name(self) -> str:
        return self.index or "table"


# ── reading the counters ─────────────────────────────────────────────────────────────────────────


def read_counters(db: Database) -> dict[str, Any] | None:
    """The counters of this process's engine, of the processes on the same file, or of the server.

    None where nothing is counted.
    """
    if not db.capabilities.has_engine:
        return _read_served(db.name) if db.name.startswith(("http://", "https://")) else None
    engine = db.engine
    if engine.simulation is not None:
        return engine.simulation.heat_report()
    return None if engine.store.memory else hot_keys.load(db.name)


def _read_served(url: str) -> dict[str, Any] | None:
    try:
        return read_heat(url, _TIMEOUT_SECONDS)
    except NoHeat:  # another server, or one that does not count
        return None


def resources_of(counted: Mapping[str, Any], table: str) -> list[Resource]:
    """The table first, then its indexes; the hottest partition of all has a heat of 1."""
    ours = [one for one in counted["resources"] if one["table"] == table]
    ours.sort(key=lambda one: (bool(one["index"]), str(one["index"])))
    hottest = max((_units(part) for one in ours for part in one["partitions"]), default=0.0)
    return [_resource(one, hottest) for one in ours]


def _resource(one: Mapping[str, Any], hottest: float) -> Resource:
    total = _units(one) or 1.0
    top = max((_units(key) for key in one["keys"]), default=0.0)
    return Resource(
        one["index"] or "",
        one["reads"],
        one["writes"],
        one["throttled"],
        tuple(_spot(key["key"], key, total, top) for key in one["keys"][:SHOWN_KEYS]),
        tuple(_partition(part, total, hottest) for part in sorted(one["partitions"], key=lambda part: part["low"])),
        tuple(_reason(name, count) for name, count in one.get("reasons", {}).items()),
    )


def _spot(name: str, one: Mapping[str, Any], total: float, top: float) -> Spot:
    units = _units(one)
    part = units / top if top else 0.0
    return Spot(name, one["reads"], one["writes"], one["throttled"], bool(one["over"]), 0, 0, units / total, part)


def _partition(one: Mapping[str, Any], total: float, hottest: float) -> Spot:
    units = _units(one)
    low, high = int(one["low"], 16), int(one["high"], 16)
    name = f"{one['low'][:6]}…{one['high'][:6]}"
    part = units / hottest if hottest else 0.0
    return Spot(name, one["reads"], one["writes"], one["throttled"], False, low, high, units / total, part)


def _units(one: Mapping[str, Any]) -> float:
    return float(one["reads"] + one["writes"])


def _reason(name: str, count: int) -> Reason:
    for ending, (meaning, mend) in REASONS.items():
        if name.endswith(ending):
            return Reason(name, count, meaning, mend)
    return Reason(name, count, "", "")


# ── drawing ──────────────────────────────────────────────────────────────────────────────────────


def shade(part: float) -> int:
    """The class of a colour, 0 to 9. A partition that was used is never 0."""
    return 0 if part <= 0 else max(1, min(SHADES - 1, round(part * (SHADES - 1))))


def draw_heat_map(resources: Sequence[Resource]) -> Markup:
    """A row for each; a stretch for each partition. A throttled partition has a mark below it."""
    rows = [one for one in resources if one.partitions]
    if not rows:
        return Markup("")
    parts = []
    for number, one in enumerate(rows):
        top = number * (_ROW + _GAP)
        parts.append(f'<rect class="heat-ground" x="0" y="{top}" width="{_WIDTH}" height="{_ROW}" rx="2"/>')
        parts += [_stretch(one, spot, top) for spot in one.partitions]
    label = f"Units by partition of {', '.join(one.name for one in rows)}"
    height = len(rows) * (_ROW + _GAP) - _GAP
    head = f'<svg class="heat-map" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(label)}">'
    return Markup(head + "".join(parts) + "</svg>")  # noqa: S704 - of numbers, and of texts that are escaped


def _stretch(one: Resource, spot: Spot, top: int) -> str:
    left = spot.low / _HASHES * _WIDTH
    wide = max(1.0, (spot.high - spot.low + 1) / _HASHES * _WIDTH - 1)
    what = (
        f"{one.name}, partition {spot.name}: {spot.reads:,.1f} read and {spot.writes:,.1f} write units, "
        f"{100 * spot.share:.1f} % of it" + (f", {spot.throttled:,} throttled" if spot.throttled else "")
    )
    place = f'x="{left:.2f}" y="{top}" width="{wide:.2f}" height="{_ROW}"'
    drawing = f'<rect class="heat heat-{shade(spot.heat)}" {place} rx="2"><title>{escape(what)}</title></rect>'
    if spot.throttled:
        drawing += f'<rect class="heat-throttled" x="{left:.2f}" y="{top + _ROW - 5}" width="{wide:.2f}" height="5"/>'
    return drawing
