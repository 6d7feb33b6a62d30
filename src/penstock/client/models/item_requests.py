"""Requests of typed items: what is sent for an instance or a key, and what its end means for the instance.

1. A version is checked and counted by `put`, by `update` and by `delete` of an instance; a lost race is a
   VersionConflict. An `update` by key counts it and checks nothing.
2. After a write the instance has the version that is stored, and after an update the attributes that it changed: else a
   put of the instance would undo the update, with a version that is right. After a write that failed it is as it was.
3. A repeat of our own write, whose first answer was lost, is not a conflict. Of a put, the stored item is the one that
   was sent. Of an update, it is the instance with the changes. Of a delete, there is none; but if the caller has a
   condition of its own, it is told that it failed, because another program may have deleted the item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

import orjson

from penstock.client.items.expressions import Aliases, Attribute, Condition, F, Where, condition_text, path_of
from penstock.client.items.expressions import update_text as text_of_update
from penstock.client.items.failures import ConditionFailed, VersionConflict
from penstock.client.items.keys import TableKey
from penstock.client.items.values import InvalidValue, Refused, decode_item, encode
from penstock.client.models.attributes import Change, Expr
from penstock.client.models.model import Model, table_of
from penstock.client.models.records import InvalidItem
from penstock.client.tables.transactions import Action, Kind, TypedGet
from penstock.wire import values as wire
from penstock.wire.limits import ITEM_BYTES

M = TypeVar("M")
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


class ItemWrite:
    """A put, update, delete or check of an item: its request, and what becomes of the instance."""

    __slots__ = ("changes", "expected", "has_condition", "instance", "key", "kind", "model", "request", "returns")

    def __init__(
        self,
        kind: Kind,
        request: Request,
        key: wire.Item,
        model: Model,
        instance: Any = None,
        expected: int | None = None,
        *,
        has_condition: bool = False,
    ) -> None:
        self.kind = kind
        self.request = request
        self.key = key
        self.model = model
        self.instance = instance
        self.expected = expected
        """The version that the table should have; None where it is not checked."""
        self.has_condition = has_condition
        """Whether the caller has a condition of its own."""
        self.changes: frozenset[str] = frozenset()
        """The attributes that an update changes."""
        self.returns = True
        """Whether the caller is given what the answer has of the item."""

    def finish(self, stored: wire.Item | None = None) -> None:
        """The write has happened, and left `stored`, where that is known (2)."""
        if self.expected is None or self.model.version is None or self.kind not in ("Put", "Update"):
            return
        if self.kind == "Update":
            try:
                new = self.model.record.read(self._changed_item() if stored is None else stored)
            except Exception:  # it cannot be told: with its old version, the next write of the instance is a conflict
                return
            self.model.record.take(self.instance, new, self.changes)
        setattr(self.instance, self.model.version.name, self.expected + 1)

    def conflict(self, failed: ConditionFailed) -> VersionConflict | None:
        """The conflict that a failed condition is; None if the version was the expected one."""
        if self.expected is None or self.model.version is None:
            return None
        found = (failed.item or {}).get(self.model.version.attribute)
        return VersionConflict.between(failed, self.expected, found) if (found or 0) != self.expected else None

    def refuse(self, failed: ConditionFailed) -> None:
        """Raises what a failed condition is, unless the write is our own (3)."""
        if failed.maybe_ours and self._is_own(failed):
            self.finish(failed.fields.get("Item"))
        else:
            raise (self.conflict(failed) or failed) from None

    def _is_own(self, failed: ConditionFailed) -> bool:
        stored: wire.Item | None = failed.fields.get("Item")
        if self.kind == "Put":
            return stored is not None and decode_item(stored) == decode_item(self.request["Item"])
        if self.kind == "Delete":
            return stored is None and self.expected is not None and not self.has_condition
        return stored is not None and self.expected is not None and self._is_updated(stored)

    def _is_updated(self, stored: wire.Item) -> bool:
        """Whether the stored item is the instance with the changes of the update."""
        try:
            mine, theirs = self.model.record.read(self._changed_item()), self.model.record.read(stored)
        except Exception:  # the instance was changed meanwhile, so that it says nothing
            return False
        return all(getattr(mine, one.name) == getattr(theirs, one.name) for one in self.model.record.fields)

    def _changed_item(self) -> wire.Item:
        """The instance's item with the changes of the update."""
        from penstock.expressions.compiled.updates import compile_update  # transactions and lost answers need it

        names = self.request.get("ExpressionAttributeNames", {})
        values = self.request.get("ExpressionAttributeValues", {})
        update = compile_update(self.request["UpdateExpression"]).bind(names, values)
        return update.apply(self.model.write(self.instance))

    def action(self) -> Action:
        """The write as a part of a transaction."""
        return Action(self.kind, self.request, None if self.expected is None else self)


class ItemActions(Generic[M]):
    """A table's name, the classes of its items, and what can be done to them in a transaction."""

    def __init__(self, name: str, models: tuple[Model, ...]) -> None:
        self.name = name
        self.models = models
        self._by_class = {one.kind: one for one in models}
        self._only = models[0] if len(models) == 1 else None
        first = models[0]
        self._key: TableKey = first.table_key
        if len(models) > 1:
            table_of(name, models)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {', '.join(one.name for one in self.models)})"

    # ── actions ──────────────────────────────────────────────────────────────────────────────────

    def put_action(self, item: M, *, if_: Where = None) -> Action:
        """`put`, as a part of a transaction."""
        return self._put(item, if_).action()

    def update_action(
        self,
        key: Any,
        *changes: Change[Any],
        set: Mapping[Any, Any] | None = None,
        remove: Iterable[Attribute] | None = None,
        add: Mapping[Any, Any] | None = None,
        delete: Mapping[Any, Any] | None = None,
        if_: Where = None,
    ) -> Action:
        """`update`, as a part of a transaction."""
        return self._update(key, changes, set, remove, add, delete, if_).action()

    def delete_action(self, key: Any, *, if_: Where = None) -> Action:
        """`delete`, as a part of a transaction."""
        return self._delete(key, if_).action()

    def check_action(self, key: Any, *, if_: Where = None) -> Action:
        """A condition on an item that the transaction does not write; of an instance, that its version is unchanged."""
        found = self._delete(key, if_, "ConditionCheck")
        if "ConditionExpression" not in found.request:
            raise ValueError("a check needs a condition: if_=…, or an instance of a class with a version")
        return found.action()

    def get_action(self, key: Any) -> TypedGet[M]:
        """`get`, as a part of `transact_get`."""
        return TypedGet({"TableName": self.name, "Key": self._key_of(key)}, self._decode_one)

    # ── writes ───────────────────────────────────────────────────────────────────────────────────

    def _put(self, item: M, if_: Where) -> ItemWrite:
        model = self._model_of(item)
        encoded, _ = self._encoded(model, item)
        request: Request = {"TableName": self.name, "Item": encoded}
        write = ItemWrite("Put", request, self._key.key_of(encoded), model)
        if model.version is not None:
            write.instance, write.expected = item, count_version(model, item, encoded)
        elif if_ is None:
            return write
        return self._conditional(write, if_, TypedAliases(model))

    def _update(
        self,
        key: Any,
        changes: Iterable[Change[Any]],
        set: Mapping[Any, Any] | None,
        remove: Iterable[Attribute] | None,
        add: Mapping[Any, Any] | None,
        delete: Mapping[Any, Any] | None,
        if_: Where,
    ) -> ItemWrite:
        model, item = self._target(key)
        if isinstance(remove, str | F):
            raise TypeError(f"a list of attributes is wanted: [{remove!r}]")
        removes, by_verb = [*(remove or ())], {"set": {**(set or {})}, "add": {**(add or {})}}
        by_verb["delete"] = {**(delete or {})}
        for one in changes:
            if not isinstance(one, Change):
                raise TypeError(f"a change is made by an attribute, such as User.visits.set(3); not {one!r}")
            if one.verb == "remove" or (one.verb == "set" and one.value is None):
                removes.append(one.target)
            else:
                by_verb[one.verb][one.target] = one.value
        sets, adds, deletes = by_verb["set"], by_verb["add"], by_verb["delete"]
        _refuse_keys(model, (*sets, *removes, *adds, *deletes))
        if model.version is not None:
            adds[F(model.version.attribute)] = 1
        aliases = TypedAliases(model)
        request: Request = {"TableName": self.name, "Key": self._key_of(key)}
        text = text_of_update(aliases, sets, removes, adds, deletes)
        if text:
            request["UpdateExpression"] = text
        write = ItemWrite("Update", request, request["Key"], model, item, _version_of(model, item))
        write.changes = frozenset(str(path_of(one)[0]) for one in (*sets, *removes, *adds, *deletes))
        return self._conditional(write, if_, aliases)

    def _delete(self, key: Any, if_: Where, kind: Kind = "Delete") -> ItemWrite:
        model, item = self._target(key)
        request: Request = {"TableName": self.name, "Key": self._key_of(key)}
        write = ItemWrite(kind, request, request["Key"], model, item, _version_of(model, item))
        return self._conditional(write, if_, TypedAliases(model))

    def _conditional(self, write: ItemWrite, if_: Where, aliases: Aliases) -> ItemWrite:
        write.has_condition = if_ is not None
        condition = _joined(_unchanged(write.model, write.expected), if_)
        if condition is not None:
            write.request["ConditionExpression"] = condition_text(condition, aliases)
            write.request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        aliases.into(write.request)
        return write

    # ── between instances and items ──────────────────────────────────────────────────────────────

    def _encoded(self, model: Model, item: Any) -> tuple[wire.Item, int]:
        """The item of an instance, and how many bytes of JSON it makes."""
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
        return encoded, size

    def _key_of(self, key: Any) -> wire.Item:
        model, item = self._target(key)
        if len(self.models) > 1 and item is None:
            if not isinstance(key, Mapping) or {*key} != {*self._key.names}:
                raise TypeError(f"the key of several classes is a dict of {' and '.join(self._key.names)}, or an item")
            encoded = {name: encode(value, name) for name, value in key.items()}
        else:
            encoded = model.key_of(key)
        self._key.check_key(encoded)
        return encoded

    def _target(self, key: Any) -> tuple[Model, Any]:
        """The class of a key, and the instance if it is one."""
        found = self._by_class.get(type(key))
        if found is not None:
            return found, key
        for model in self.models:
            if isinstance(key, model.kind):
                return model, key
        return self.models[0], None

    def _model_of(self, item: Any) -> Model:
        found = self._by_class.get(type(item))  # exactly, first: a class may be derived from another of the table
        if found is not None:
            return found
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

    def _decode(self, items: list[wire.Item]) -> list[Any]:
        """The instances of a page; items of other classes, which the table may have too, are passed over."""
        only = self._only
        if only is None:
            found = ((self._owner(item), item) for item in items)
            return [model.record.read(item) for model, item in found if model is not None]
        if only.is_one_of_several:
            items = [item for item in items if not only.is_foreign(item)]
        return only.record.read_many(items)

    def _owner(self, item: wire.Item) -> Model | None:
        return next((model for model in self.models if model.owns(item)), None)

    def _decode_one(self, item: wire.Item) -> Any:
        model = self._only or self._owner(item)
        if model is not None:
            return model.record.read(item)
        key = decode_item({name: item[name] for name in self._key.names if name in item})
        names = ", ".join(one.name for one in self.models)
        raise InvalidItem(
            f"the item {key} is none of {names}: its Literal attribute, or its key, is another", "", self.name
        )

    def _place(self, item: Any, names: tuple[str, ...]) -> wire.Item | None:
        encoded = self._model_of(item).write(item)
        return {name: encoded[name] for name in names} if all(name in encoded for name in names) else None


# ── conditions and versions ──────────────────────────────────────────────────────────────────────


def _version_of(model: Model, item: Any) -> int | None:
    """The version of an instance; None where none is checked."""
    return None if item is None or model.version is None else int(getattr(item, model.version.name) or 0)


def count_version(model: Model, item: Any, encoded: wire.Item) -> int | None:
    """The version that the table should have; the next one is written."""
    expected = _version_of(model, item)
    if expected is not None and model.version is not None:
        encoded[model.version.attribute] = {"N": str(expected + 1)}
    return expected


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


def _refuse_keys(model: Model, targets: Iterable[Attribute]) -> None:
    names = {path_of(one)[0] for one in targets}
    for part in model.templates:
        for name in part.names:
            if model.record.by_name[name].attribute in names:
                raise ValueError(f"{name} is a part of {part.attribute}={part.template!r}: put the whole item instead")
