"""One item through `up`: what changes, and the conditional write that makes the change.

1. A change writes only the top-level attributes that `up` changed; what a live writer adds meanwhile stays.
2. The write is conditional on all attributes that the item had, and on the absence of those that `up` looked for, or
   adds, and did not find. So what is written was computed from what is there.
3. DynamoDB's conditions have 300 operators: 150 attributes. Of an item with more, those are compared that `up` read or
   writes; with a `guard`, an attribute that every writer changes, that and those that are written. If it has read
   more, the item fails: it is never written unchecked.
4. A primary key does not change: that is another item, and `penstock tables rekey` does it.
5. `up` returns the item, or DELETE. None is an error: most often a forgotten `return item`.
6. With a version attribute, an item whose version is the migration's number or more is done, and the write sets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

from penstock.client.items.expressions import Aliases, Condition, condition_text
from penstock.client.items.keys import TableKey
from penstock.client.items.values import Item as PythonItem
from penstock.client.items.values import decode_item, encode_item
from penstock.errors import PenstockError
from penstock.expressions.request import condition_of
from penstock.tables.migrations.migration import Migration, Where
from penstock.wire.limits import EXPRESSION_BYTES, EXPRESSION_OPERATORS
from penstock.wire.values import AttributeValue, Item, check_item, equal

MOST_COMPARED: Final = EXPRESSION_OPERATORS // 2
"""A comparison and the AND before it are two operators."""

Direction = Literal["up", "down"]


class _Delete:
    def __repr__(self) -> str:
        return "DELETE"


DELETE: Final = _Delete()
"""What `up` or `down` returns for an item that shall be deleted."""


class BadResult(PenstockError):
    """What `up` returned for an item cannot be written."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The item is not selected, or `up` leaves it as it is."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The item will be `after`; None deletes it. `read` are the attributes that `up` read, None if all."""

    before: Item
    after: Item | None
    read: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Failed:
    """`up` raised an error for this item, or returned what cannot be written."""

    kind: str
    message: str


Outcome = Unchanged | Changed | Failed
UNCHANGED: Final = Unchanged()


class Transform:
    """One direction of a migration, on the items of a table with this key."""

    def __init__(self, migration: Migration, key: TableKey, direction: Direction = "up") -> None:
        down = direction == "down"
        function = migration.down if down else migration.up
        if function is None:
            raise BadResult(
                f"{migration.path} has no function down(item): it cannot be undone. Restore the backup or the point in "
                "time that `penstock tables migrate status` names, or write a new migration."
            )
        self.key = key
        self.name = direction
        self.guard = migration.guard
        self._function = function
        self._version = migration.version
        self._number = migration.number
        self._down = down
        self._where = migration.down_where if down else migration.where
        self._selects = _predicate(self._where)

    @property
    def filter(self) -> dict[str, Any]:
        """The condition as members of a Scan; empty where Python decides."""
        request = _filter_of(self._where)
        if request is None:
            return {}
        return {"FilterExpression": request.pop("ConditionExpression"), **request}

    def is_selected(self, item: Item) -> bool:
        """Whether the item is of the old shape, as far as `where` and the version say. May raise what `where` does."""
        if self._version is not None and self._is_done(item.get(self._version)):
            return False
        return self._selects(item)

    def _is_done(self, version: AttributeValue | None) -> bool:
        """(6)"""
        try:
            number = float(version["N"]) if version is not None else 0.0
        except (KeyError, ValueError):
            raise BadResult(f"{self._version} is the version of an item, a number; not {version}") from None
        return number < self._number if self._down else number >= self._number

    def __call__(self, item: Item) -> Outcome:
        """What becomes of the item. Every error is a fact about this item."""
        try:
            if not self.is_selected(item):
                return UNCHANGED
            seen = SeenItem(decode_item(item))
            result = self._function(seen)
            return self._outcome(item, result, seen)
        except (BadResult, PenstockError) as error:
            return Failed(type(error).__name__, str(error))
        except Exception as error:
            return Failed(type(error).__name__, str(error))

    def _outcome(self, item: Item, result: Any, seen: SeenItem) -> Outcome:
        read = None if seen.read_all else frozenset(seen.read)
        if result is DELETE:
            return Changed(item, None, read)
        if result is None:
            raise BadResult(f"{self.name}() returned None: end it with `return item` (or DELETE, to delete the item)")
        if not isinstance(result, Mapping):
            raise BadResult(f"{self.name}() returned {type(result).__name__}, not an item")
        after, _ = check_item(encode_item(dict.copy(result) if isinstance(result, dict) else dict(result)))
        for name in self.key.names:
            if name not in after or not equal(after[name], item[name]):
                raise BadResult(
                    f"{self.name}() changes {name}, which is part of the primary key: that is another item. "
                    "`penstock tables rekey` changes a table's key with its data"
                )
        if self._version is not None:
            after = {**after, self._version: {"N": str(self._number - 1 if self._down else self._number)}}
        return Changed(item, after, read) if changed_names(item, after) else UNCHANGED

    def is_stable(self, after: Item) -> bool:
        """Whether a second time changes nothing."""
        return isinstance(self(after), Unchanged)


def _filter_of(where: Where) -> dict[str, Any] | None:
    if not isinstance(where, Condition):
        return None
    aliases = Aliases()
    return aliases.into({"ConditionExpression": condition_text(where, aliases)})


def _predicate(where: Where) -> Callable[[Item], bool]:
    if where is None:
        return lambda item: True
    request = _filter_of(where)
    if request is not None:
        found = condition_of(request)
        assert found is not None
        return found
    assert callable(where)
    return lambda item: bool(where(decode_item(item)))


def changed_names(before: Item, after: Item) -> list[str]:
    """The top-level attributes that differ, in an order that people expect: as they were, then new ones."""
    gone_or_other = [name for name in before if name not in after or not equal(before[name], after[name])]
    return gone_or_other + [name for name in after if name not in before]


# ── what up has read ─────────────────────────────────────────────────────────────────────────────


class SeenItem(dict[str, Any]):
    """An item that notes which attributes were read, those that were not there included (2, 3)."""

    def __init__(self, item: PythonItem) -> None:
        super().__init__(item)
        self.read: set[str] = set()
        self.read_all = False

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.read.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        self.read.add(name)
        return super().pop(name, *default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().setdefault(name, default)

    # Whoever walks over an item has read all of it. `dict(item)` and `{**item}` come through here, too.

    def __iter__(self) -> Iterator[str]:
        self.read_all = True
        return super().__iter__()

    def __len__(self) -> int:
        self.read_all = True
        return super().__len__()

    def __eq__(self, other: object) -> bool:
        self.read_all = True
        return super().__eq__(other)

    __hash__ = None

    def __or__(self, other: Any) -> Any:
        self.read_all = True
        return super().__or__(other)

    def __ror__(self, other: Any) -> Any:
        self.read_all = True
        return super().__ror__(other)

    def keys(self) -> Any:
        self.read_all = True
        return super().keys()

    def values(self) -> Any:
        self.read_all = True
        return super().values()

    def items(self) -> Any:
        self.read_all = True
        return super().items()

    def copy(self) -> PythonItem:
        self.read_all = True
        return dict(super().items())

    def popitem(self) -> NoReturn:
        raise TypeError("an item has no last attribute: name the one to remove")


# ── the write ────────────────────────────────────────────────────────────────────────────────────


def write_call(table: str, key: TableKey, change: Changed, guard: str | None = None) -> tuple[str, dict[str, Any]]:
    """The conditional UpdateItem, or DeleteItem, that makes the change (1, 2). A refusal brings the item as it is.

    Raises BadResult for what DynamoDB's expressions have no room for.
    """
    aliases = _Names()
    written = [] if change.after is None else changed_names(change.before, change.after)
    request: dict[str, Any] = {
        "TableName": table,
        "Key": key.key_of(change.before),
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        "ConditionExpression": _condition(key, change, written, guard, aliases),
    }
    operation = "DeleteItem"
    if change.after is not None:
        operation = "UpdateItem"
        request["UpdateExpression"] = _update(change.after, written, aliases)
    request["ExpressionAttributeNames"] = aliases.names
    if aliases.values:
        request["ExpressionAttributeValues"] = aliases.values
    return operation, request


class _Names:
    """Short aliases: an expression has 4 KB."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: Item = {}
        self._aliases: dict[str, str] = {}

    def name(self, name: str) -> str:
        alias = self._aliases.get(name)
        if alias is None:
            alias = self._aliases[name] = f"#{len(self.names):x}"
            self.names[alias] = name
        return alias

    def value(self, value: AttributeValue) -> str:
        alias = f":{len(self.values):x}"
        self.values[alias] = value
        return alias


def _condition(key: TableKey, change: Changed, written: list[str], guard: str | None, aliases: _Names) -> str:
    compared = _compared(key, change, written, guard)
    parts = (
        [] if any(name in change.before for name in compared) else [f"attribute_exists({aliases.name(key.names[0])})"]
    )
    for name in compared:
        if name in change.before:
            parts.append(f"{aliases.name(name)}={aliases.value(change.before[name])}")
        else:
            parts.append(f"attribute_not_exists({aliases.name(name)})")
    text = " AND ".join(parts)
    if len(text) > EXPRESSION_BYTES:
        raise BadResult(f"the condition on {len(compared)} attributes has more than {EXPRESSION_BYTES:,} bytes")
    return text


def _compared(key: TableKey, change: Changed, written: list[str], guard: str | None) -> list[str]:
    """The attributes that must be as they were (2, 3)."""
    absent = [name for name in change.read or () if name not in change.before]
    whole = _unique((*change.before, *absent, *written), key)
    if len(whole) < MOST_COMPARED:
        return whole
    if guard is not None:
        needed = _unique((guard, *written), key)
    elif change.read is None or change.after is None:
        raise BadResult(
            f"the item has {len(change.before)} attributes, and all of them were read: a condition compares "
            f'{MOST_COMPARED - 1} at most. Name an attribute that every writer changes, guard = "revision", or let '
            "up() take attributes by their names"
        )
    else:
        needed = _unique((*written, *sorted(change.read)), key)
    if len(needed) >= MOST_COMPARED:
        raise BadResult(f"{len(needed)} attributes would have to be compared: a condition takes {MOST_COMPARED - 1}")
    return needed


def _unique(names: Iterable[str], key: TableKey) -> list[str]:
    """The key need not be compared: the write names it."""
    return [name for name in dict.fromkeys(names) if name not in key.names]


def _update(after: Item, written: list[str], aliases: _Names) -> str:
    assigned = [f"{aliases.name(name)}={aliases.value(after[name])}" for name in written if name in after]
    removed = [aliases.name(name) for name in written if name not in after]
    text = " ".join(verb + ",".join(parts) for verb, parts in (("SET ", assigned), ("REMOVE ", removed)) if parts)
    if len(text) > EXPRESSION_BYTES or len(written) > EXPRESSION_OPERATORS:
        raise BadResult(f"it changes {len(written)} attributes, which is more than one update takes: change fewer")
    return text
