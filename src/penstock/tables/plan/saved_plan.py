"""A plan in a file: `plan --out FILE` writes it, `apply FILE` carries out exactly this one.

1. The file is complete: the tables as they were found, as they should be, and the changes. Nothing is planned again
   when it is applied.
2. It is for one place (a file, an endpoint, a region), and elsewhere it is refused.
3. It is read only as it was written: a checksum finds what was edited, and a plan of another version of Penstock is
   refused, for a change may mean something else there.
4. It has no secrets: names, definitions and settings only. Items are not in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Final, get_args

from penstock.errors import PenstockError
from penstock.tables.definitions.aws_shapes import Facts
from penstock.tables.definitions.definition import (
    Attribute,
    Index,
    Key,
    Maximum,
    Naming,
    Table,
    Throughput,
    VectorIndex,
)
from penstock.tables.plan.changes import Change, describe_whole
from penstock.tables.plan.plan import TablePlan, diff
from penstock.tables.plan.render import plan_json
from penstock.tables.plan.survey import Live, Survey, TableSurvey

Json = dict[str, Any]

FORMAT: Final = "penstock tables plan"
VERSION: Final = 1
MOST_BYTES: Final = 64 * 1024 * 1024
"""A plan of 2,500 tables has about 10 MB: what is larger is none of ours."""


NEW_PLAN: Final = "Make a new one: penstock tables plan … --out FILE"


class SavedPlanRefused(PenstockError):
    """A saved plan that is not applied: which file, why, and what to do."""

    def __init__(self, file: str, reason: str, next_step: str = NEW_PLAN) -> None:
        super().__init__(file, reason, next_step)
        self.file = file
        self.reason = reason
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.file}: nothing was applied: {self.reason}. {self.next_step}."


@dataclass(frozen=True, slots=True)
class Place:
    """The database that a plan is for. `url` is where it is, as it was resolved; `region` is '' for a file."""

    target: str
    """--db, as it was given."""
    url: str
    region: str = ""

    def __str__(self) -> str:
        return f"{self.url} in {self.region}" if self.region else self.url


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """What a file holds."""

    survey: Survey
    place: Place
    source: str
    """DEFINITIONS, as they were given."""
    fingerprint: str
    """Of the definitions: the same for the same tables under the same names."""
    made_at: str
    made_by: str
    penstock: str
    """The version that made it."""


def fingerprint(tables: Iterable[Table], naming: Naming) -> str:
    """A hash of definitions under their full names, whatever their order and wherever they are written."""
    named = {naming.full_name(table.name): _encode(table) for table in tables}
    return hashlib.sha256(_canonical(named)).hexdigest()


def definition_changes(saved: SavedPlan, tables: Iterable[Table], naming: Naming) -> tuple[str, ...]:
    """What is different in these definitions from those that the plan was made of, in words."""
    before = {one.name: one.wanted for one in saved.survey.tables if one.wanted is not None}
    now = {naming.full_name(table.name): table for table in tables}
    told = []
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if old is None or new is None:
            told.append(f"{name} is {'new' if old is None else 'gone'}")
        elif _encode(old) != _encode(new):
            words = ", ".join(map(describe_whole, diff(old, new)))
            told.append(f"{name}: {words or 'something that is not compared with the table'}")
    return tuple(told)


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def saved_text(plan: SavedPlan) -> str:
    """The file's text: what people and `jq` read first, then what apply reads, then the checksum."""
    form: Json = {
        "format": FORMAT,
        "version": VERSION,
        "penstock": plan.penstock,
        "made_at": plan.made_at,
        "made_by": plan.made_by,
        "place": {"target": plan.place.target, "url": plan.place.url, "region": plan.place.region},
        "definitions": {"source": plan.source, "fingerprint": plan.fingerprint},
        "plan": plan_json(plan.survey.plan),
        "naming": _encode(plan.survey.naming),
        "tables": [_encode(one) for one in plan.survey.tables],
    }
    return json.dumps(form | {"checksum": _checksum(form)}, indent=2, ensure_ascii=False) + "\n"


def _checksum(form: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical({name: value for name, value in form.items() if name != "checksum"})).hexdigest()


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def is_saved_plan(file: Path) -> bool:
    """Whether a file is one, as far as its beginning tells; a broken one is one too."""
    try:
        with file.open("rb") as opened:
            start = opened.read(256)
    except OSError:
        return False
    return start.lstrip().startswith(b"{") and f'"format": "{FORMAT}"'.encode() in start


def read_saved_plan(file: Path) -> SavedPlan:
    """Raises SavedPlanRefused for what is not exactly what was written (3)."""
    name = str(file)
    if file.stat().st_size > MOST_BYTES:
        raise SavedPlanRefused(name, f"it has more than {MOST_BYTES:,} bytes")
    try:
        form = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise SavedPlanRefused(name, f"it is broken ({error})") from None
    if not isinstance(form, dict) or form.get("format") != FORMAT:
        raise SavedPlanRefused(name, "it is no saved plan")
    if form.get("version") != VERSION:
        raise SavedPlanRefused(name, f"it is of version {form.get('version')!r}, and this Penstock reads {VERSION}")
    if form.get("checksum") != _checksum(form):
        raise SavedPlanRefused(name, "it is not as it was written: its checksum is another")
    try:
        return _read(form)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        made = form.get("penstock", "another version")
        raise SavedPlanRefused(name, f"it was made by Penstock {made}, which plans otherwise ({error})") from error


def _read(form: Json) -> SavedPlan:
    place, source = form["place"], form["definitions"]
    tables = tuple(_decode(one) for one in form["tables"])
    naming = _decode(form["naming"])
    if not isinstance(naming, Naming) or not all(isinstance(one, TableSurvey) for one in tables):
        raise ValueError("there are no tables in it")
    return SavedPlan(
        Survey(tables, naming),
        Place(place["target"], place["url"], place["region"]),
        source["source"],
        source["fingerprint"],
        form["made_at"],
        form["made_by"],
        form["penstock"],
    )


# ── values ───────────────────────────────────────────────────────────────────────────────────────

_KINDS: Final[dict[str, type]] = {
    kind.__name__: kind
    for kind in (
        *(Attribute, Index, Key, Maximum, Naming, Table, Throughput, VectorIndex),
        *(Facts, Live, TablePlan, TableSurvey),
        *get_args(Change),
    )
}
"""What a file may have values of. Every one is a dataclass of such values, texts, numbers and flags."""


def _encode(value: Any) -> Any:
    """A dataclass is an object with its class as `is`, a mapping is one with `is: map`; a tuple is a list."""
    if is_dataclass(value) and not isinstance(value, type):
        if type(value).__name__ not in _KINDS:
            raise TypeError(f"{type(value).__name__} is no part of a plan")
        return {"is": type(value).__name__} | {one.name: _encode(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {"is": "map", "of": dict(value)}
    if isinstance(value, frozenset):
        return {"is": "set", "of": sorted(value)}
    if isinstance(value, tuple):
        return [_encode(one) for one in value]
    return value


def _decode(form: Any) -> Any:
    if isinstance(form, list):
        return tuple(_decode(one) for one in form)
    if not isinstance(form, dict):
        return form
    kind = form["is"]
    if kind == "map":
        return dict(form["of"])
    if kind == "set":
        return frozenset(form["of"])
    made = _KINDS[kind]
    names = {one.name for one in fields(made)}
    if names != form.keys() - {"is"}:
        raise ValueError(f"{kind} has other members here: {', '.join(sorted(names ^ (form.keys() - {'is'})))}")
    value: Any = object.__new__(made)
    for name in names:
        # What was written had been checked by its constructor, and the checksum says that it is the same.
        object.__setattr__(value, name, _decode(form[name]))
    return value
