"""One of the application's tables as its code uses it: writes that are conditional, reads by its key and its indexes.

1. `add` never overwrites, `change` never makes an item: a missing key is an error, not a ghost row.
2. What an index could not take (an empty or a wrong key) is refused before it is sent, with the attribute's name.
3. An item that has expired is not shown, whether it is deleted yet or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from penstock.client.database import Database
from penstock.client.items.expressions import Condition, F
from penstock.client.items.failures import ConditionFailed
from penstock.client.items.values import InvalidValue, Item
from penstock.client.reads.pages import Items
from penstock.clock import Clock, utc_text
from penstock.errors import PenstockError
from penstock.tables.definitions.definition import Key, Naming, Table

_LATEST_EXPIRY_SECONDS = 10 * 366 * 86_400
"""An expiry further away is one in milliseconds, which DynamoDB would take for the year 50,000."""


class AlreadyThere(PenstockError):
    """What was to be added has a key that is taken; nothing was written."""

    def __init__(self, table: str, key: Mapping[str, Any]) -> None:
        super().__init__(f"{table} has {_shown(key)} already; nothing was changed. Use `change`, or another id.")
        self.table, self.key = table, dict(key)


class NotThere(PenstockError):
    """What was asked for, or was to be changed, is not in the table."""

    def __init__(self, table: str, key: Mapping[str, Any]) -> None:
        super().__init__(f"{table} has no {_shown(key)}. Check the id, and the environment whose tables are asked.")
        self.table, self.key = table, dict(key)


class NoWayToFind(PenstockError):
    """Attributes that neither the table's key nor an index begins with."""

    def __init__(self, table: str, given: Iterable[str], ways: Iterable[str]) -> None:
        super().__init__(
            f"{table} cannot be asked by {' and '.join(sorted(given)) or 'nothing'}. It can by {'; '.join(ways)}."
        )


class Collection:
    """A table with its full name. `lifetime_seconds` is how long an item lives where the table has a TTL."""

    lifetime_seconds: ClassVar[int | None] = None

    def __init__(self, db: Database, definition: Table, naming: Naming, clock: Clock) -> None:
        self.definition = definition
        self.clock = clock
        self.name = naming.full_name(definition.name)
        self.table = db.table(self.name, key=tuple(str(one) for one in definition.key.attributes))

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def add(self, item: Mapping[str, Any]) -> Item:
        """Writes a new item, and gives it back as it was written. Raises AlreadyThere where its key is taken."""
        made = self.checked(item)
        try:
            self.table.put(made, if_=self.absent())
        except ConditionFailed as error:
            raise AlreadyThere(self.name, self.key_of(made)) from error
        return made

    def put(self, item: Mapping[str, Any], *, if_: Condition | None = None) -> Item:
        """Writes the whole item, in place of what is there; with `if_`, only where that holds (ConditionFailed)."""
        made = self.checked(item)
        self.table.put(made, if_=if_)
        return made

    def put_many(self, items: Iterable[Mapping[str, Any]]) -> int:
        """Writes any number of items, in place of those with their keys; how many there are now of them."""
        return self.table.batch_write(self.checked(item) for item in items).done

    def change(
        self,
        *key: str,
        set: Mapping[str, Any] | None = None,
        remove: Iterable[str] = (),
        if_: Condition | None = None,
    ) -> Item:
        """Changes attributes of an item that is there, and gives it back as it is then.

        Raises NotThere where there is none, and ConditionFailed where it does not meet `if_`.
        """
        self._check_keys(set or {})
        whole = self.key(*key)
        there = self.present() if if_ is None else self.present() & if_
        changes = {"updatedAt": utc_text(self.clock.now()), **(set or {})}
        try:
            changed = self.table.update(whole, set=changes, remove=[*remove] or None, if_=there, return_new=True)
        except ConditionFailed as error:
            if error.item is None or self._has_expired(error.item):
                raise NotThere(self.name, whole) from error
            raise
        assert changed is not None  # return_new gives it
        return changed

    def delete(self, *key: str) -> Item | None:
        """Deletes an item, and gives back what it was; None where there was none."""
        return self.table.delete(self.key(*key), return_old=True)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def get(self, *key: str, consistent: bool = False) -> Item | None:
        """The item with this key, or None."""
        found = self.table.get(self.key(*key), consistent=consistent)
        return None if found is None or self._has_expired(found) else found

    def required(self, *key: str) -> Item:
        """The item with this key, as it is at this moment. Raises NotThere."""
        found = self.get(*key, consistent=True)
        if found is None:
            raise NotThere(self.name, self.key(*key))
        return found

    def find(
        self,
        index: str | None,
        equals: Mapping[str, str],
        *,
        sort: Condition | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        page_size: int | None = None,
        token: str | None = None,
    ) -> Items:
        """The items with these values of an index's key, or (None) of the table's: an iterator that pages by itself."""
        return self.table.query(
            index=index,
            key=equals,
            sort=sort,
            filter=self._living(),
            newest_first=newest_first,
            limit=limit,
            page_size=page_size,
            token=token,
        )

    def find_by(self, equals: Mapping[str, str], *, limit: int | None = None, token: str | None = None) -> Items:
        """The same, by whichever key begins with these attributes. Raises NoWayToFind."""
        return self.find(self.way(equals), equals, limit=limit, token=token)

    def all(self, *, limit: int | None = None, token: str | None = None) -> Items:
        """Every item: a Scan, page after page."""
        return self.table.scan(filter=self._living(), limit=limit, token=token)

    def way(self, attributes: Iterable[str]) -> str | None:
        """The index whose key begins with exactly these attributes; None is the table's own key."""
        wanted = frozenset(attributes)
        keys: dict[str | None, Key] = {None: self.definition.key}
        keys |= {index.name: index.key for index in self.definition.indexes}
        for index, key in keys.items():
            if wanted in (frozenset(key.names[:1]), frozenset(key.names)):
                return index
        told = (" and ".join(key.names) + (f" ({index})" if index else "") for index, key in keys.items())
        raise NoWayToFind(self.name, wanted, told)

    # ── its shape ────────────────────────────────────────────────────────────────────────────────

    def key(self, *values: str) -> dict[str, str]:
        """The values of the key as the map that DynamoDB wants. Raises ValueError where one lacks."""
        names = self.definition.key.names
        if len(values) != len(names):
            raise ValueError(f"the key of {self.name} is {' and '.join(names)}: {len(values)} values were given")
        return dict(zip(names, values, strict=True))

    def key_of(self, item: Mapping[str, Any]) -> dict[str, Any]:
        return {name: item[name] for name in self.definition.key.names}

    def absent(self) -> Condition:
        """Holds where there is no such item, or one that has expired and is only not deleted yet."""
        missing = F(self.definition.key.names[0]).missing()
        ttl = self.definition.ttl
        return missing if ttl is None else missing | (F(ttl) <= int(self.clock.now()))

    def present(self) -> Condition:
        """Holds where there is an item that has not expired."""
        there = F(self.definition.key.names[0]).exists()
        living = self._living()
        return there if living is None else there & living

    def checked(self, item: Mapping[str, Any]) -> Item:
        """The item with its times and its expiry. Raises InvalidValue for what an index or the TTL could not take."""
        now = self.clock.now()
        made = {"createdAt": utc_text(now), "updatedAt": utc_text(now), **item}
        ttl = self.definition.ttl
        if ttl is not None:
            if self.lifetime_seconds is not None:
                made.setdefault(ttl, int(now) + self.lifetime_seconds)
            _check_expiry(ttl, made.get(ttl), now)
        self._check_keys(made)
        return made

    def _check_keys(self, item: Mapping[str, Any]) -> None:
        for attribute in self.definition.attributes:
            value = item.get(attribute.name, "left out")
            if not isinstance(value, str):
                raise InvalidValue(f"a key must be a str, and this is {type(value).__name__}", attribute.name)
            if not value:
                raise InvalidValue("a key must not be empty; leave the attribute out of the item", attribute.name)

    def _living(self) -> Condition | None:
        ttl = self.definition.ttl
        return None if ttl is None else F(ttl).missing() | (F(ttl) > int(self.clock.now()))

    def _has_expired(self, item: Item) -> bool:
        ttl = self.definition.ttl
        return ttl is not None and ttl in item and item[ttl] <= self.clock.now()


def _check_expiry(name: str, value: object, now: float) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidValue(f"an expiry is a whole number of epoch seconds, not {type(value).__name__}", name)
    if not now < value < now + _LATEST_EXPIRY_SECONDS:
        when = "in the past" if value <= now else "more than ten years away; is it in milliseconds?"
        raise InvalidValue(f"an expiry is epoch seconds after {int(now)}, and {value} is {when}", name)


def _shown(key: Mapping[str, Any]) -> str:
    return " and ".join(f"{name} {value!r}" for name, value in key.items())
