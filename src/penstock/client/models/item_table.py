"""The handle of typed items: `db.table(User)`, and of several classes in one table: `db.table(User, Order)`.

1. A version is checked and counted by `put`, by `update` and by `delete` of an instance; a lost race is a
   VersionConflict. An `update` by key counts it and checks nothing.
2. After a write the instance has the version that is stored; after one that failed it has the one it had.
3. A repeat of our own write, whose first answer was lost, is not a conflict: the stored item is the one that was sent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import orjson

from penstock.client.items.expressions import (
    Aliases,
    And,
    Attribute,
    Comparison,
    Condition,
    F,
    Where,
    condition_text,
    path_of,
    update_text,
)
from penstock.client.items.failures import ConditionFailed, VersionConflict
from penstock.client.items.keys import TableKey
from penstock.client.items.values import InvalidValue, Refused, decode_item, encode
from penstock.client.models.attributes import Change, Expr
from penstock.client.models.converters import BadModel
from penstock.client.models.model import KeyPart, Model, ModelIndex
from penstock.client.models.records import InvalidItem
from penstock.client.reads.pages import AsyncPagedItems, Cursor, PagedItems
from penstock.client.tables.requests import Call
from penstock.errors import ConditionalCheckFailedException
from penstock.wire import values as wire
from penstock.wire.limits import ITEM_BYTES

if TYPE_CHECKING:
    from penstock.client.async_database import AsyncDatabase
    from penstock.client.database import Database

M = TypeVar("M")
Got = TypeVar("Got")
Many = TypeVar("Many")
Request = dict[str, Any]


class TypedAliases(Aliases):
    """Values as the attribute that they are compared with, or set to, has them."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._model = model

    def value(self, value: Any, *path: str | int) -> str:
        """The alias of a value that is meant for `path`."""
        written = self._written(value, path)
        return super().value(value, *path) if written is None else self._new(written)

    def _written(self, value: Any, path: tuple[str | int, ...]) -> wire.AttributeValue | None:
        one = self._model.record.by_attribute.get(path[0]) if path and isinstance(path[0], str) else None
        converter = None if one is None else one.converter.at(path[1:])
        # What is not of the attribute's type may be a member of it (contains), a length or the start of a text.
        for each in (converter, converter and converter.member):
            if each is not None:
                try:
                    return each.write(value)
                except Refused:
                    continue
        return None


class ItemCalls(ABC, Generic[M, Got, Many]):
    """The typed items of one table. Cheap to make; nothing is asked before a method needs it."""

    def __init__(self, name: str, models: tuple[Model, ...]) -> None:
        self.name = name
        self.models = models
        first = models[0]
        self._key: TableKey = first.table_key
        if any(one.table_key != first.table_key for one in models):
            raise BadModel(f"{', '.join(one.name for one in models)} are of one table, and their keys differ.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {', '.join(one.name for one in self.models)})"

    @abstractmethod
    def _send(self, call: Call[M | None], refused: Callable[[ConditionFailed], None]) -> Got: ...

    @abstractmethod
    def _items(self, cursor: Cursor) -> Many: ...

    # ── one item ─────────────────────────────────────────────────────────────────────────────────

    def get(self, key: Any, *, consistent: bool = False) -> Got:
        """The item with this key, or None: `users.get("a@example.org")`, `orders.get(("c1", 5))`."""
        request: Request = {"TableName": self.name, "Key": self._key_of(key)}
        if consistent:
            request["ConsistentRead"] = True
        return self._send(Call("GetItem", request, self._read_item, request["Key"]), _raise)

    def put(self, item: M, *, if_: Where = None, return_old: bool = False) -> Got:
        """Writes the whole item; gives the one before it with `return_old`. Raises ConditionFailed, VersionConflict."""
        model = self._model_of(item)
        encoded = self._encoded(model, item)
        request: Request = {"TableName": self.name, "Item": encoded}
        aliases = TypedAliases(model)
        expected = self._count(model, item, encoded)
        condition = _joined(_unchanged(model, expected), if_)
        if condition is not None:
            request["ConditionExpression"] = condition_text(condition, aliases)
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if return_old:
            request["ReturnValues"] = "ALL_OLD"
        aliases.into(request)

        def read(answer: dict[str, Any]) -> M | None:
            _set_version(model, item, expected)
            found: M | None = self._read_old(answer)
            return found

        def refused(failed: ConditionFailed) -> None:
            if failed.maybe_ours and failed.item == decode_item(encoded):  # (3)
                _set_version(model, item, expected)
                return
            _raise_conflict(model, expected, failed)

        return self._send(Call("PutItem", request, read, self._key.key_of(encoded)), refused)

    def update(
        self,
        key: Any,
        *changes: Change[Any],
        set: Mapping[Any, Any] | None = None,
        remove: Iterable[Attribute] | None = None,
        add: Mapping[Any, Any] | None = None,
        delete: Mapping[Any, Any] | None = None,
        if_: Where = None,
        return_old: bool = False,
        return_new: bool = False,
    ) -> Got:
        """Changes attributes of the item, and makes it where it is missing: `update(key, User.visits.add(1))`.

        `set` and its like are the dict handle's. With an instance as the key its version is checked (1).
        """
        model, item = self._target(key)
        request: Request = {"TableName": self.name, "Key": self._key_of(key)}
        sets, removes, adds = dict(set or {}), list(remove or ()), dict(add or {})
        deletes = dict(delete or {})
        for one in changes:
            if one.verb == "remove" or (one.verb == "set" and one.value is None):
                removes.append(one.target)
            else:
                {"set": sets, "add": adds, "delete": deletes}[one.verb][one.target] = one.value
        _refuse_keys(model, (*sets, *removes, *adds, *deletes))
        expected = None if item is None or model.version is None else int(getattr(item, model.version.name) or 0)
        if model.version is not None:
            adds[F(model.version.attribute)] = 1
        aliases = TypedAliases(model)
        text = update_text(aliases, sets, removes, adds, deletes)
        if text:
            request["UpdateExpression"] = text
        condition = _joined(_unchanged(model, expected), if_)
        if condition is not None:
            request["ConditionExpression"] = condition_text(condition, aliases)
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if return_old or return_new:
            request["ReturnValues"] = "ALL_NEW" if return_new else "ALL_OLD"
        aliases.into(request)

        def read(answer: dict[str, Any]) -> M | None:
            if item is not None:
                _set_version(model, item, expected)
            found: M | None = self._read_old(answer)
            return found

        return self._send(
            Call("UpdateItem", request, read, request["Key"]), lambda failed: _raise_conflict(model, expected, failed)
        )

    def delete(self, key: Any, *, if_: Where = None, return_old: bool = False) -> Got:
        """Deletes the item, if there is one. With an instance as the key its version is checked (1)."""
        model, item = self._target(key)
        request: Request = {"TableName": self.name, "Key": self._key_of(key)}
        expected = None if item is None or model.version is None else int(getattr(item, model.version.name) or 0)
        aliases = TypedAliases(model)
        condition = _joined(_unchanged(model, expected), if_)
        if condition is not None:
            request["ConditionExpression"] = condition_text(condition, aliases)
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if return_old:
            request["ReturnValues"] = "ALL_OLD"
        aliases.into(request)
        return self._send(
            Call("DeleteItem", request, self._read_old, request["Key"]),
            lambda failed: _raise_conflict(model, expected, failed),
        )

    # ── many items ───────────────────────────────────────────────────────────────────────────────

    def query(
        self,
        *conditions: Condition,
        index: str | None = None,
        filter: Where = None,
        newest_first: bool = False,
        limit: int | None = None,
        page_size: int | None = None,
        consistent: bool = False,
        token: str | None = None,
        **equals: Any,
    ) -> Many:
        """The items of one partition: `query(User.company == "acme", User.joined > day)`, or `query(company="acme")`.

        The index is the one whose key the conditions are; `index` names it where several are.
        """
        parts = [each for one in conditions for each in (one.parts if isinstance(one, And) else (one,))]
        model = self._model_of_conditions(parts)
        values, others = _equalities(model, parts, equals)
        hashes, sorts, name = _path(model, values, index)
        aliases = TypedAliases(model)
        terms = [self._equal(aliases, part.attribute, part.write(values, model.record)) for part in hashes]
        used = {name for part in hashes for name in part.names}
        left = {one: value for one, value in values.items() if one not in used}
        for part in sorts:
            terms += self._sort_terms(model, part, left, others, aliases)
        if left or others:
            names = [*left, *(str(one) for one in others)]
            raise ValueError(f"{names[0]} is not of the key {_shown(hashes, sorts)}; use filter= for what is no key")
        request: Request = {"TableName": self.name, "KeyConditionExpression": " AND ".join(terms)}
        if newest_first:
            request["ScanIndexForward"] = False
        return self._reading("Query", request, aliases, name, filter, consistent, limit, page_size, token)

    def _sort_terms(
        self, model: Model, part: KeyPart, left: dict[str, Any], others: list[Condition], aliases: Aliases
    ) -> list[str]:
        if part.field is not None:
            if part.field.name in left:
                return [self._equal(aliases, part.attribute, part.field.converter.write(left.pop(part.field.name)))]
            mine = [one for one in others if _name_of(one) == part.attribute]
            others[:] = (
                [one for one in others if one not in mine]
                if not mine
                else [o for o in others if all(o is not m for m in mine)]
            )
            return [condition_text(one, aliases) for one in mine]
        prefix, is_all = part.prefix(left, model.record)
        for name in part.names:
            left.pop(name, None)
        if is_all and len(self.models) == 1:
            return [self._equal(aliases, part.attribute, {"S": prefix})]
        if not prefix or (len(self.models) > 1 and not part.names):
            return []
        if len(self.models) > 1 and not is_all:
            return []  # all classes of the partition
        return [f"begins_with({aliases.name(part.attribute)}, {aliases._new({'S': prefix})})"]

    def _equal(self, aliases: Aliases, attribute: str, value: wire.AttributeValue) -> str:
        return f"{aliases.name(attribute)} = {aliases._new(value)}"

    def scan(
        self,
        *,
        index: str | None = None,
        filter: Where = None,
        limit: int | None = None,
        page_size: int | None = None,
        consistent: bool = False,
        token: str | None = None,
    ) -> Many:
        """Every item of the table that is of these classes."""
        aliases = TypedAliases(self.models[0])
        return self._reading(
            "Scan", {"TableName": self.name}, aliases, index, filter, consistent, limit, page_size, token
        )

    def _reading(
        self,
        operation: str,
        request: Request,
        aliases: Aliases,
        index: str | None,
        filter: Where,
        consistent: bool,
        limit: int | None,
        page_size: int | None,
        token: str | None,
    ) -> Many:
        if index is not None:
            request["IndexName"] = index
        if filter is not None:
            request["FilterExpression"] = condition_text(filter, aliases)
        if consistent:
            request["ConsistentRead"] = True
        aliases.into(request)
        names = self._key.names if index is None else None
        cursor = Cursor(
            operation,
            request,
            limit=limit,
            page_size=page_size,
            token=token,
            names=names,
            decode=self._decode,
            place=self._place,
        )
        return self._items(cursor)

    # ── between instances and items ──────────────────────────────────────────────────────────────

    def _decode(self, items: list[wire.Item]) -> list[Any]:
        if len(self.models) == 1:
            return self.models[0].record.read_many(items)
        return [self._decode_one(item) for item in items]

    def _decode_one(self, item: wire.Item) -> Any:
        for model in self.models:
            if len(self.models) == 1 or model.owns(item):
                return model.record.read(item)
        key = decode_item({name: item[name] for name in self._key.names if name in item})
        names = ", ".join(one.name for one in self.models)
        raise InvalidItem(
            f"the item {key} is none of {names}: its Literal attribute, or its key, is another", "", self.name
        )

    def _place(self, item: Any, names: tuple[str, ...]) -> wire.Item | None:
        encoded = self._model_of(item).write(item)
        return {name: encoded[name] for name in names} if all(name in encoded for name in names) else None

    def _encoded(self, model: Model, item: Any) -> wire.Item:
        try:
            encoded = model.write(item)
        except Refused as refused:
            raise refused.at() from None
        self._key.check_item(encoded)
        try:
            size = len(orjson.dumps(encoded))
        except TypeError:
            raise InvalidValue("a text that is not valid Unicode: half of a surrogate pair") from None
        if size > ITEM_BYTES and wire.item_size(encoded) > ITEM_BYTES:
            raise InvalidValue(f"the item has {wire.item_size(encoded):,} bytes, and DynamoDB takes {ITEM_BYTES:,}")
        return encoded

    def _key_of(self, key: Any) -> wire.Item:
        model, item = self._target(key)
        if len(self.models) > 1 and item is None:
            if not isinstance(key, Mapping) or set(key) != set(self._key.names):
                raise TypeError(f"the key of several classes is a dict of {' and '.join(self._key.names)}, or an item")
            encoded = {name: encode(value, name) for name, value in key.items()}
        else:
            encoded = model.key_of(key)
        self._key.check_key(encoded)
        return encoded

    def _target(self, key: Any) -> tuple[Model, Any]:
        for model in self.models:
            if isinstance(key, model.kind):
                return model, key
        return self.models[0], None

    def _model_of(self, item: Any) -> Model:
        for model in self.models:
            if isinstance(item, model.kind):
                return model
        names = " or ".join(one.name for one in self.models)
        raise TypeError(f"the table {self.name} has items of {names} here, not of {type(item).__name__}")

    def _model_of_conditions(self, conditions: Iterable[Condition]) -> Model:
        for one in conditions:
            left = getattr(one, "left", None)
            if isinstance(left, Expr):
                for model in self.models:
                    if issubclass(model.kind, left.owner):
                        return model
        return self.models[0]

    def _read_item(self, answer: dict[str, Any]) -> Any:
        found = answer.get("Item")
        return None if found is None else self._decode_one(found)

    def _read_old(self, answer: dict[str, Any]) -> Any:
        found = answer.get("Attributes")
        return self._decode_one(found) if found else None

    def _count(self, model: Model, item: Any, encoded: wire.Item) -> int | None:
        """The version that the table should have; the next one is written."""
        if model.version is None:
            return None
        expected = int(getattr(item, model.version.name) or 0)
        encoded[model.version.attribute] = {"N": str(expected + 1)}
        return expected

    def _failed(self, error: ConditionalCheckFailedException, call: Call[Any]) -> ConditionFailed:
        return ConditionFailed.of(error, self.name, None if call.key is None else decode_item(call.key))


class ItemTable(ItemCalls[M, M | None, PagedItems[M]], Generic[M]):
    """The typed items of a table of a `Database`."""

    def __init__(self, database: Database, name: str, models: tuple[Model, ...]) -> None:
        super().__init__(name, models)
        self._database = database

    def _send(self, call: Call[M | None], refused: Callable[[ConditionFailed], None]) -> M | None:
        try:
            return call.read(self._database.execute(call.operation, call.request))
        except ConditionalCheckFailedException as error:
            refused(self._failed(error, call))
            return None

    def _items(self, cursor: Cursor) -> PagedItems[M]:
        return PagedItems(cursor, self._database.execute)

    def batch_put(self, items: Iterable[M]) -> int:
        """Writes any number of items, 25 at a time; how many. Versions are counted, and not checked."""
        done = 0
        with self._database.table(
            self.name, key=tuple(f"{a.name}:{a.type}" for a in self._key.attributes)
        ).batch() as batch:
            for item in items:
                model = self._model_of(item)
                encoded = self._encoded(model, item)
                expected = self._count(model, item, encoded)
                batch.put_encoded(encoded)
                _set_version(model, item, expected)
                done += 1
        return done

    def batch_get(self, keys: Iterable[Any], *, consistent: bool = False) -> list[M]:
        """The items with these keys, in the order of the keys; a key that has no item is passed over."""
        from penstock.client.batches.batch_reads import ReadPlan, read_encoded
        from penstock.client.batches.batches import BatchOptions

        plan = ReadPlan(self.name, self._key, None, consistent)
        encoded = (self._key_of(key) for key in keys)
        calls = self._database.capabilities.parallel_calls
        return self._decode(list(read_encoded(plan, encoded, self._database.execute, BatchOptions(), calls)))


class AsyncItemTable(ItemCalls[M, Coroutine[Any, Any, "M | None"], AsyncPagedItems[M]], Generic[M]):
    """The same for asyncio: `await users.get(key)`, `async for user in users.query(…)`."""

    def __init__(self, database: AsyncDatabase, name: str, models: tuple[Model, ...]) -> None:
        super().__init__(name, models)
        self._database = database

    async def _send(self, call: Call[M | None], refused: Callable[[ConditionFailed], None]) -> M | None:
        try:
            return call.read(await self._database.execute(call.operation, call.request))
        except ConditionalCheckFailedException as error:
            refused(self._failed(error, call))
            return None

    def _items(self, cursor: Cursor) -> AsyncPagedItems[M]:
        return AsyncPagedItems(cursor, self._database.execute)


# ── conditions and versions ──────────────────────────────────────────────────────────────────────


def _raise(failed: ConditionFailed) -> None:
    raise failed from None


def _raise_conflict(model: Model, expected: int | None, failed: ConditionFailed) -> None:
    """VersionConflict if the version is another; the caller's own condition otherwise."""
    if expected is not None and model.version is not None:
        found = (failed.item or {}).get(model.version.attribute)
        if (found or 0) != expected:
            raise VersionConflict.between(failed, expected, found) from None
    raise failed from None


def _unchanged(model: Model, expected: int | None) -> Condition | None:
    if expected is None or model.version is None:
        return None
    version = F(model.version.attribute)
    return version == expected if expected else version.missing()


def _joined(ours: Condition | None, theirs: Where) -> Where:
    if ours is None or theirs is None:
        return theirs if ours is None else ours
    if isinstance(theirs, str):
        raise TypeError("a class with a version takes conditions made from F(…) or its attributes, not a text")
    return ours & theirs


def _set_version(model: Model, item: Any, expected: int | None) -> None:
    if expected is not None and model.version is not None:
        setattr(item, model.version.name, expected + 1)


def _refuse_keys(model: Model, targets: Iterable[Attribute]) -> None:
    names = {path_of(one)[0] for one in targets}
    for part in model.templates:
        for name in part.names:
            if model.record.by_name[name].attribute in names:
                raise ValueError(f"{name} is a part of {part.attribute}={part.template!r}: put the whole item instead")


def _name_of(condition: Condition) -> str | None:
    operand = getattr(condition, "left", None) or getattr(condition, "operand", None) or getattr(condition, "of", None)
    return str(operand.path[0]) if isinstance(operand, F) else None


def _equalities(
    model: Model, conditions: Iterable[Condition], equals: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Condition]]:
    """Values by attribute of the class, and the conditions that are no equality."""
    values, others = {}, []
    for name, value in equals.items():
        if name not in model.record.by_name:
            raise ValueError(f"{model.name} has no {name}")
        values[name] = value
    for one in conditions:
        name = _name_of(one) or ""
        field = model.record.by_attribute.get(name)
        if isinstance(one, Comparison) and one.comparator == "=" and field is not None:
            values[field.name] = one.right
        else:
            others.append(one)
    return values, others


def _path(
    model: Model, values: Mapping[str, Any], index: str | None
) -> tuple[tuple[KeyPart, ...], tuple[KeyPart, ...], str | None]:
    """The table or the index whose partition key the values are."""
    table = ModelIndex("", model.key[:1], model.key[1:])
    if index is not None:
        if index not in model.indexes:
            raise ValueError(f"{model.name} has no index {index!r}: it has {', '.join(model.indexes) or 'none'}")
        chosen = [model.indexes[index]]
    else:
        chosen = [one for one in (table, *model.indexes.values()) if _has_all(one.hash, values)]
        chosen = chosen[:1] if chosen and chosen[0] is table else chosen
    if len(chosen) != 1 or not _has_all(chosen[0].hash, values):
        names = [_shown(one.hash, one.sort) for one in (table, *model.indexes.values())]
        why = (
            "several indexes have this key: name one with index=" if len(chosen) > 1 else "the partition key is missing"
        )
        raise ValueError(f"query of {model.name}: {why}; its keys are {', '.join(names)}")
    return chosen[0].hash, chosen[0].sort, chosen[0].name or None


def _has_all(parts: Iterable[KeyPart], values: Mapping[str, Any]) -> bool:
    return all(name in values for part in parts for name in part.names)


def _shown(hashes: Iterable[KeyPart], sorts: Iterable[KeyPart]) -> str:
    return f"({', '.join(part.attribute for part in (*hashes, *sorts))})"
