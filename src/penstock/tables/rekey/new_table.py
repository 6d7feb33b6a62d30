"""The new table of a rekey: its key, its indexes, and what becomes of each index of the old table. Everything is pure.

    penstock tables rekey orders --into orders-2 --local-index by-time=at:N/KEYS_ONLY --drop-index by-author

1. All that is not asked to change is kept: settings, indexes, and the projection of an index that gets another key.
2. A local index depends on the partition key. Where that changes, it becomes a global index with the same key and
   projection, which answers the same queries, eventually consistent.
3. What `options_for` writes for two tables, `new_definition` reads: the new table has the key and the local indexes of
   the one that is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from penstock.errors import PenstockError
from penstock.tables.definitions.definition import Attribute, Index, Key, Table, VectorIndex
from penstock.tables.plan.changes import index_text

_PARTS = re.compile(r"(?<=:[SNB]),")  # a name may have a comma in it, and a type ends each part
_HASH_PARTS = re.compile(r"(?<=:[SNB])\+")
_INDEX = re.compile(r"(?P<name>[^=]+)=(?P<key>.+?:[SNB])(?:/(?P<projection>.+))?", re.DOTALL)
_PROJECTIONS = ("ALL", "KEYS_ONLY")

INDEX_FORM = "NAME=PARTITION:T[,SORT:T][/PROJECTION]"
LOCAL_INDEX_FORM = "NAME=SORT:T[/PROJECTION]"
PROJECTION_FORM = "ALL, KEYS_ONLY, or names of attributes separated by commas"

Action = Literal["keep", "add", "change", "drop"]
_SIGNS: dict[Action, str] = {"keep": "=", "add": "+", "change": "~", "drop": "-"}


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What is asked of the new table, as it is spelled on the command line. An empty key is the old one."""

    key: str = ""
    indexes: tuple[str, ...] = ()
    local_indexes: tuple[str, ...] = ()
    drop_indexes: tuple[str, ...] = ()

    @property
    def has_indexes(self) -> bool:
        return bool(self.indexes or self.local_indexes or self.drop_indexes)


# ── the definition ───────────────────────────────────────────────────────────────────────────────


def new_definition(old: Table, name: str, options: TableOptions) -> Table:
    """The old table's definition with another name, key and indexes (1); raises PenstockError for what cannot be."""
    key = _key_of(options.key, "--key") if options.key else old.key
    asked = tuple(_asked_indexes(options, key))
    _check_names(old, asked, options.drop_indexes)
    members: dict[str, Any] = {one.name: getattr(old, one.name) for one in fields(old)}
    indexes = _indexes(old, key, asked, options.drop_indexes)
    vectors = [one for one in old.vector_indexes if one.name not in options.drop_indexes]
    return Table(**members | {"name": name, "key": key, "indexes": indexes, "vector_indexes": vectors})


@dataclass(frozen=True, slots=True)
class _Asked:
    """An index of the new table; its projection, if one is told."""

    name: str
    key: Key
    local: bool
    projection: str | tuple[str, ...] | None

    def index(self, before: Index | None) -> Index:
        kept = before.projection if before is not None else "ALL"
        projection = kept if self.projection is None else self.projection
        if self.local or before is None:
            return Index(self.name, key=self.key, projection=projection, local=self.local)
        return replace(before, key=self.key, projection=projection, local=False)


def _asked_indexes(options: TableOptions, key: Key) -> Iterator[_Asked]:
    for text in options.indexes:
        yield _parse_index(text, "--index", INDEX_FORM)
    for text in options.local_indexes:
        index = _parse_index(text, "--local-index", LOCAL_INDEX_FORM)
        if len(index.key.attributes) != 1:
            raise PenstockError(
                f"--local-index {text}: a local index has the table's partition key ({key.hash[0]}) and one sort key. "
                f"Write {LOCAL_INDEX_FORM}; --index makes a global one."
            )
        yield replace(index, key=Key(key.hash, index.key.attributes), local=True)


def _parse_index(text: str, option: str, form: str) -> _Asked:
    match = _INDEX.fullmatch(text)
    if match is None:
        raise PenstockError(
            f"{option} {text}: write {form}, where T is S, N or B, and PROJECTION is {PROJECTION_FORM}."
        )
    told = match["projection"]
    projection: str | tuple[str, ...] | None = told
    if told is not None and told not in _PROJECTIONS:
        projection = tuple(name.strip() for name in told.split(",") if name.strip())
        if told.upper() in _PROJECTIONS:
            raise PenstockError(f"{option} {text}: write {told.upper()} in capitals; {told} would be an attribute.")
    return _Asked(match["name"], _key_of(match["key"], f"{option} {text}"), False, projection)


def _key_of(text: str, where: str) -> Key:
    """`job_id:S,comment_id:N`; an index may have several partition attributes, joined by +."""
    first, *rest = (part.strip() for part in _PARTS.split(text))
    parts = [_HASH_PARTS.split(first), rest]
    for part in (one for several in parts for one in several):
        name, colon, kind = part.rpartition(":")
        if not (name and colon and kind in ("S", "N", "B")):
            raise PenstockError(
                f"{where}: {part!r} has no type. Write NAME:S (text), NAME:N (number) or NAME:B (bytes)."
            )
    hash_parts, range_parts = (tuple(Attribute.parse(one) for one in several) for several in parts)
    return Key(hash_parts, range_parts)


def _check_names(old: Table, asked: Iterable[_Asked], dropped: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in (*(one.name for one in asked), *dropped):
        if name in seen:
            raise PenstockError(f"Index {name} is named twice. Name it in one of --index, --local-index, --drop-index.")
        seen.add(name)
    unknown = [name for name in dropped if name not in {one.name for one in old.every_index}]
    if unknown:
        there = ", ".join(one.name for one in old.every_index) or "none"
        raise PenstockError(f"--drop-index {unknown[0]}: {old.name} has no such index; it has {there}.")


def _indexes(old: Table, key: Key, asked: Iterable[_Asked], dropped: Iterable[str]) -> list[Index]:
    told = {one.name: one for one in asked}
    gone = {*told, *dropped}
    kept = [_without_local(one) if one.local and one.key.hash != key.hash else one for one in old.indexes]
    return [*(one for one in kept if one.name not in gone), *(one.index(old.index(one.name)) for one in told.values())]


def _without_local(index: Index) -> Index:
    """The global index of a local one (2)."""
    return Index(index.name, key=index.key, projection=index.projection)


# ── what becomes of the indexes ──────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class IndexChange:
    """One index, in the old table and in the new one; None where it is not."""

    before: Index | None
    after: Index | None
    differences: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        index = self.after or self.before
        assert index is not None
        return index.name

    @property
    def action(self) -> Action:
        if self.before is None:
            return "add"
        if self.after is None:
            return "drop"
        return "change" if self.differences else "keep"

    def __str__(self) -> str:
        """`~ index by-time: local → global, because the partition key changes`."""
        index = self.after or self.before
        assert index is not None
        head = f"{_SIGNS[self.action]} {'local index' if index.local else 'index'} {index.name}"
        if self.differences:
            return f"{head}: {'; '.join(self.differences)}"
        return f"{head} ({index.key}){_projection_suffix(index)}" if self.after is not None else head

    @property
    def form(self) -> dict[str, Any]:
        """As JSON."""
        index = self.after or self.before
        assert index is not None
        return {
            "index": self.name,
            "action": self.action,
            "text": str(self),
            "local": index.local,
            "key": [str(one) for one in index.key.attributes],
            "projection": index.projection if isinstance(index.projection, str) else list(index.projection),
        }


@dataclass(frozen=True, slots=True)
class VectorIndexChange:
    """A vector index of the old table, which the new one has as it is, or has not."""

    index: VectorIndex
    action: Literal["keep", "drop"]

    @property
    def name(self) -> str:
        return self.index.name

    def __str__(self) -> str:
        return f"{_SIGNS[self.action]} {index_text(self.index)}"

    @property
    def form(self) -> dict[str, Any]:
        """As JSON."""
        return {"index": self.name, "action": self.action, "text": str(self), "vector": True}


def index_changes(old: Table, new: Table) -> tuple[IndexChange | VectorIndexChange, ...]:
    """Every index of both tables, by name; then the vector indexes."""
    names = sorted({one.name for one in (*old.indexes, *new.indexes)})
    pairs = ((old.index(name), new.index(name)) for name in names)
    changes = (IndexChange(before, after, tuple(_differences(before, after))) for before, after in pairs)
    kept = {one.name for one in new.vector_indexes}
    vectors = (VectorIndexChange(one, "keep" if one.name in kept else "drop") for one in old.vector_indexes)
    return (*changes, *vectors)


def _differences(before: Index | None, after: Index | None) -> Iterator[str]:
    if before is None or after is None:
        return
    if before.local and not after.local and before.key == after.key:
        yield f"local → global, because the partition key changes; its key stays ({after.key})"
    elif before.local != after.local:
        yield "local → global" if before.local else "global → local"
    if before.key != after.key:
        yield f"key ({before.key}) → ({after.key})"
    if before.projection != after.projection:
        yield f"projection {_projection_text(before)} → {_projection_text(after)}"


def _projection_text(index: Index) -> str:
    return index.projection if isinstance(index.projection, str) else ", ".join(index.projection)


def _projection_suffix(index: Index) -> str:
    return "" if index.projection == "ALL" else f", projection {_projection_text(index)}"


# ── the options that lead from one table to another ──────────────────────────────────────────────


def options_for(live: Table, wanted: Table) -> TableOptions:
    """What to ask for so that the new table has the key and the indexes of `wanted` (3).

    A global index that `wanted` has not is kept: apply keeps it too.
    """
    kept = {one.name: one for one in _indexes(live, wanted.key, (), ())}
    missing = [one for one in wanted.indexes if one.name not in kept or kept[one.name].shape != one.shape]
    gone = [one.name for one in live.local_indexes if wanted.index(one.name) is None]
    return TableOptions(
        key_text(wanted.key) if live.key != wanted.key else "",
        tuple(_spell(one, live) for one in missing if not one.local),
        tuple(_spell(one, live) for one in missing if one.local),
        tuple(gone),
    )


def option_words(options: TableOptions) -> list[str]:
    """The options as words of a command line."""
    words = ["--key", options.key] if options.key else []
    for option, texts in (
        ("--index", options.indexes),
        ("--local-index", options.local_indexes),
        ("--drop-index", options.drop_indexes),
    ):
        words += [word for text in texts for word in (option, text)]
    return words


def key_text(key: Key) -> str:
    """`job_id:S,comment_id:N`."""
    return ",".join(["+".join(map(str, key.hash)), *map(str, key.range)])


def _spell(index: Index, live: Table) -> str:
    before = live.index(index.name)
    by_itself = "ALL" if before is None else before.projection
    text = ",".join(map(str, index.key.range)) if index.local else key_text(index.key)
    suffix = "" if index.projection == by_itself else f"/{_projection_text(index).replace(', ', ',')}"
    return f"{index.name}={text}{suffix}"


def differing_options(run: TableOptions, given: TableOptions) -> Iterator[str]:
    """The options that are given and are not those of a rekey that has begun, which has its whole key."""
    if given.key and _key_of(given.key, "--key") != _key_of(run.key, "--key"):
        yield "--key"
    for name, option in (("indexes", "--index"), ("local_indexes", "--local-index"), ("drop_indexes", "--drop-index")):
        asked = getattr(given, name)
        if asked and sorted(asked) != sorted(getattr(run, name)):
            yield option
