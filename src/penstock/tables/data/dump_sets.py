"""Several tables dumped together, into a folder or a part of a bucket; and loaded from there.

    orders/…             a dump of one table (dump.py); with a format, or in a bucket: orders.jsonl.gz (item_files.py)
    tables.json          the tables; written last, so a place without it is half written
    tables-state.json    while the dump is under way: which tables it is for

1. Run again, a dump that was stopped goes on with the table that it was at. Tables are those that there were at first.
2. A load checks every table before it writes the first item. Its state says which tables are done; run again, it goes
   on. A bucket is not written to: the state is in the file of --state, and without one a load is repeated with --merge.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from penstock.client.database import Database
from penstock.client.wrappers.pacing import Pacer
from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.files import Files, open_files
from penstock.tables.data.dump import SUMMARY, FolderError, Loaded, Progress, dump, load, open_dump, replace_file
from penstock.tables.data.item_files import Format, ItemFile, dump_file, is_bucket, load_file
from penstock.tables.definitions.export_file import export_form, read_export
from penstock.tables.plan.survey import require_table

SET = "tables.json"
SET_STATE = "tables-state.json"

Each = Callable[[str, int], object]
"""Told of each table that is done, and its items."""


class Home:
    """The small files of a set, in a folder or in a bucket."""

    def __init__(self, where: str) -> None:
        self.where = where.rstrip("/")
        self.files: Files | None = open_files(self.where) if is_bucket(where) else None

    def read(self, name: str) -> dict[str, Any] | None:
        if self.files is None:
            path = Path(self.where, name)
            content = path.read_bytes() if path.is_file() else None
        else:
            content = self.files.read(name) if self.files.exists(name) else None
        if content is None:
            return None
        try:
            form = orjson.loads(content)
            return {**form, "tables": list(form["tables"])}
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise PenstockError(f"{self.where}/{name}: it is no list of tables ({error}). Dump them again.") from None

    def write(self, name: str, form: dict[str, Any]) -> None:
        content = orjson.dumps(form, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        if self.files is None:
            Path(self.where).mkdir(parents=True, exist_ok=True)
            replace_file(Path(self.where, name), content)
        else:
            self.files.save(name, content)

    def delete(self, name: str) -> None:
        if self.files is None:
            Path(self.where, name).unlink(missing_ok=True)
        else:
            self.files.delete(name)

    def is_empty(self) -> bool:
        if self.files is None:
            path = Path(self.where)
            return not path.exists() or (path.is_dir() and not any(path.iterdir()))
        return next(iter(self.files.list()), None) is None

    def file(self, name: str, format: Format) -> ItemFile:
        base, _, query = self.where.partition("?")
        return ItemFile(f"{base.rstrip('/')}/{name}" + (f"?{query}" if query else ""), format)


# ── dumping ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Pace:
    segments: int
    pacer: Pacer | None = None
    progress: Progress | None = None


def begin_set(db: Database, names: Sequence[str], home: Home, *, dry_run: bool = False) -> dict[str, Any]:
    """The state of a dump of these tables; raises where the place holds another, or a whole one."""
    if home.read(SET) is not None:
        raise PenstockError(f"{home.where}: there is a whole dump in it already. Give another place, or delete it.")
    found = home.read(SET_STATE)
    if found is not None:
        if found.get("database") != db.name or not set(found["tables"]) <= set(names):
            told = ", ".join(map(str, found["tables"][:5]))
            raise PenstockError(f"{home.where}: a dump of {told} in {found.get('database')} was begun in it.")
        return found
    if not home.is_empty():
        raise PenstockError(f"{home.where}: it is not empty, and holds no dump of several tables. Give another place.")
    state = {"database": db.name, "tables": list(names)}
    if not dry_run:
        home.write(SET_STATE, state)
    return state


def dump_set(
    db: Database, names: Sequence[str], home: Home, format: Format | None, pace: Pace, *, now: float, tell: Each
) -> list[dict[str, Any]]:
    """Dumps the tables one after the other; what tables.json says of each."""
    if home.files is not None:
        format = format or "jsonl"
    wanted: list[str] = begin_set(db, names, home)["tables"]
    done = []
    for name in wanted:
        entry = _dump_folder(db, name, home, pace) if format is None else _dump_file(db, name, home, format, pace)
        done.append(entry)
        tell(name, entry["items"])
    home.write(SET, {"version": 1, "database": db.name, "endTime": utc_text(now), "tables": done})
    home.delete(SET_STATE)
    return done


def _dump_folder(db: Database, name: str, home: Home, pace: Pace) -> dict[str, Any]:
    folder = Path(home.where, name)
    if (folder / SUMMARY).exists():
        dumped = open_dump(folder)  # by an earlier run of this dump
        if dumped.summary.get("tableName") != name:
            raise FolderError(folder, "it holds a dump of another table", "Names here differ only in case: dump one")
    else:
        dumped = dump(db, name, folder, segments=pace.segments, pacer=pace.pacer, progress=pace.progress)
    return {"table": name, "folder": name, "items": dumped.items}


def _dump_file(db: Database, name: str, home: Home, format: Format, pace: Pace) -> dict[str, Any]:
    """A file that an earlier run has written is written again: it does not tell its items without being read."""
    file = f"{name}.{format}.gz"
    target = home.file(file, format)
    live = require_table(db, name)
    if target.is_object:
        assert home.files is not None
        home.files.delete(file)
    else:
        Path(target.where).unlink(missing_ok=True)
    dumped = dump_file(db, name, target, segments=pace.segments, pacer=pace.pacer, progress=pace.progress)
    definition = export_form(live.table)
    return {"table": name, "file": file, "format": format, "items": dumped.items, "definition": definition}


# ── loading ──────────────────────────────────────────────────────────────────────────────────────


def open_set(where: str) -> dict[str, Any] | None:
    """What a whole dump of several tables says of itself; None where there is none. Raises for half of one."""
    home = Home(where)
    found = home.read(SET)
    if found is None and home.read(SET_STATE) is not None:
        raise PenstockError(
            f"{where}: the dump is half written. Run the same `penstock tables dump` again: it continues."
        )
    return found


def load_set(
    db: Database,
    where: str,
    only: str | None,
    *,
    create: bool,
    merge: bool,
    pace: Pace,
    state_file: Path | None,
    dry_run: bool,
    tell: Callable[[Loaded], object],
) -> list[Loaded]:
    """Loads every table under its own name, or one of them."""
    found = open_set(where)
    assert found is not None
    entries = [one for one in found["tables"] if only is None or one["table"] == only]
    if not entries:
        names = ", ".join(one["table"] for one in found["tables"])
        raise PenstockError(f"{where}: there is no table {only} in this dump. There is {names or 'none'}.")
    home = Home(where)
    state = _SetState.open(state_file or _default_state(home, db, only), found)
    left = [one for one in entries if one["table"] not in state.done]

    def one(entry: dict[str, Any], *, dry_run: bool) -> Loaded:
        may_merge = merge or entry["table"] == state.begun
        return _load_one(db, home, entry, create=create, merge=may_merge, pace=pace, dry_run=dry_run)

    checked = [one(entry, dry_run=True) for entry in left]
    if dry_run:
        for each in checked:
            tell(each)
        return checked
    loaded = []
    for entry in left:
        state.begin(entry["table"])
        each = one(entry, dry_run=False)
        state.finish(entry["table"])
        loaded.append(each)
        tell(each)
    state.forget()
    return loaded


def _load_one(
    db: Database, home: Home, entry: dict[str, Any], *, create: bool, merge: bool, pace: Pace, dry_run: bool
) -> Loaded:
    name = entry["table"]
    if "folder" in entry:
        folder = Path(home.where, entry["folder"])
        return load(
            db, folder, name, create=create, merge=merge, pacer=pace.pacer, progress=pace.progress, dry_run=dry_run
        )
    definition = read_export(orjson.dumps(entry["definition"]), f"{home.where}/{SET}")
    source = home.file(entry["file"], entry["format"])
    loaded = load_file(
        db, source, name, create=create, merge=merge, pacer=pace.pacer, progress=pace.progress, dry_run=dry_run,
        definition=definition,
    )  # fmt: skip
    if loaded.items != entry["items"]:
        raise PenstockError(f"{source.where}: it has {loaded.items:,} items instead of {entry['items']:,}.")
    return loaded


class _SetState:
    """Which tables are loaded, and which was begun; the file is gone when all are."""

    def __init__(self, path: Path | None, stamp: str, done: list[str], begun: str | None) -> None:
        self.path, self.stamp, self.done, self.begun = path, stamp, done, begun

    @classmethod
    def open(cls, path: Path | None, found: dict[str, Any]) -> _SetState:
        stamp = hashlib.sha256(orjson.dumps(found)).hexdigest()
        if path is None or not path.exists():
            return cls(path, stamp, [], None)
        try:
            form = orjson.loads(path.read_bytes())
            if form["stamp"] == stamp:
                return cls(path, stamp, list(form["done"]), form["begun"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise FolderError(path, "it is no state of a load", "Delete the file, and load again") from None
        return cls(path, stamp, [], None)

    def begin(self, table: str) -> None:
        self.begun = table
        self._save()

    def finish(self, table: str) -> None:
        self.done.append(table)
        self._save()

    def _save(self) -> None:
        if self.path is not None:
            form = {"stamp": self.stamp, "done": self.done, "begun": self.begun}
            replace_file(self.path, orjson.dumps(form))

    def forget(self) -> None:
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _default_state(home: Home, db: Database, only: str | None) -> Path | None:
    mark = hashlib.sha256(f"{db.name} {only}".encode()).hexdigest()[:12]
    return None if home.files is not None else Path(home.where, f"load-state-{mark}.json")
