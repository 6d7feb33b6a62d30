"""`@item`: a class with its table, key, indexes, TTL and version.

A key is an attribute of the class, or is made of some by a template: `keys={"pk": "USER#{id}", "sk": "PROFILE"}`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass
from inspect import get_annotations
from string import Formatter
from typing import Any, TypeVar, dataclass_transform
from weakref import WeakKeyDictionary

from penstock.client.items.keys import TableKey
from penstock.client.items.values import Refused
from penstock.client.models.attributes import AttrOptions, Expr, attr
from penstock.client.models.converters import WRONG, BadModel
from penstock.client.models.records import OPTIONS, Field, Record, record_of
from penstock.wire import numbers
from penstock.wire import values as wire

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class ItemOptions:
    """What `item(…)` says: above a class, or as its `__item__`."""

    table: str
    keys: Mapping[str, str] | None = None
    indexes: Mapping[str, Mapping[str, str]] | None = None
    frozen: bool = False
    kw_only: bool = False

    def __call__(self, kind: type[C]) -> type[C]:
        """Makes the class a dataclass whose attributes are expressions at the class."""
        declared = dict(getattr(kind, OPTIONS, {}))
        for name in get_annotations(kind):
            given = kind.__dict__.get(name, MISSING)
            if isinstance(given, AttrOptions):
                declared[name] = given
                setattr(kind, name, _dataclass_field(given))
            elif given is MISSING and isinstance(getattr(kind, name, None), Expr):
                setattr(kind, name, dataclasses.field())
        made: Any = dataclasses.dataclass(kind, frozen=self.frozen, kw_only=self.kw_only)
        setattr(made, OPTIONS, declared)
        made.__item__ = self
        for one in dataclasses.fields(made):
            options = declared.get(one.name)
            expression: Expr[Any] = Expr((options and options.name) or one.name)
            expression.owner = made
            setattr(made, one.name, expression)
        found: type[C] = made
        return found


def _dataclass_field(options: AttrOptions) -> Any:
    if options.default_factory is not MISSING:
        return dataclasses.field(default_factory=options.default_factory)
    return dataclasses.field() if options.default is MISSING else dataclasses.field(default=options.default)


@dataclass_transform(field_specifiers=(attr,))
def item(
    table: str,
    *,
    keys: Mapping[str, str] | None = None,
    indexes: Mapping[str, Mapping[str, str]] | None = None,
    frozen: bool = False,
    kw_only: bool = False,
) -> ItemOptions:
    """A class whose instances are the items of a table: `@penstock.item("users")`.

    `keys` makes the table's key of attributes, `indexes` those of indexes: {"pk": "USER#{id}", "sk": "PROFILE"}.
    A dataclass or a pydantic model of your own has `__item__ = penstock.item("users")`.
    """
    return ItemOptions(table, keys, indexes, frozen, kw_only)


@dataclass(frozen=True, slots=True)
class KeyPart:
    """An attribute of a key: one of the class, or a text made of some."""

    attribute: str
    type: str
    field: Field | None
    template: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes of the class that it is made of."""
        if self.field is not None:
            return (self.field.name,)
        return tuple(name for _, name, _, _ in Formatter().parse(self.template) if name)

    def prefix(self, values: Mapping[str, Any], record: Record) -> tuple[str, bool]:
        """The text as far as the values tell it, and whether that is all of it."""
        text = ""
        for literal, name, spec, _ in Formatter().parse(self.template):
            text += literal
            if name is None:
                continue
            if name not in values:
                return text, False
            text += _text(record.by_name[name], values[name], spec or "")
        return text, True

    def told(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """The attributes that `prefix` has in it: those before the first that is not given."""
        names = self.names
        missing = next((place for place, name in enumerate(names) if name not in values), len(names))
        return tuple(dict.fromkeys(names[:missing]))

    def fits(self, item: wire.Item, record: Record) -> bool:
        """Whether an item has the text that this template makes of the item's own attributes, as far as it has them."""
        text = item.get(self.attribute, {}).get("S")
        if text is None:
            return False
        values: dict[str, Any] = {}
        for name in self.names:
            one = record.by_name[name]
            try:
                values[name] = one.converter.read(item[one.attribute])
            except WRONG:
                break
        prefix, is_all = self.prefix(values, record)
        return bool(text == prefix if is_all else text.startswith(prefix))

    def write(self, values: Mapping[str, Any], record: Record) -> wire.AttributeValue:
        """Its value on the wire. Raises Refused, KeyError for a value that is not given."""
        if self.field is not None:
            return self.field.converter.write(values[self.field.name])
        return {"S": self.prefix(values, record)[0]}


def _text(one: Field, value: Any, spec: str) -> str:
    if spec:
        return format(value, spec)
    written = one.converter.write(value)
    ((tag, content),) = written.items()
    if tag not in ("S", "N"):
        raise Refused(f"{one.name} is of type {tag}, which is no part of a key")
    # A number as DynamoDB gives it back, so that the key can be made again from what is stored.
    return str(content) if tag == "S" else numbers.normalise(content)


Parts = tuple[KeyPart, ...]


@dataclass(frozen=True, slots=True)
class ModelIndex:
    """An index: its partition key, its sort key, and whether it is a local one."""

    name: str
    hash: Parts
    sort: Parts
    local: bool = False


class Model:
    """A class, compiled, with the table that its items are in."""

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.record = record_of(kind)
        self.options: ItemOptions | None = getattr(kind, "__item__", None)
        fields = self.record.fields
        self.key: Parts = self._table_key(fields)
        self.indexes: dict[str, ModelIndex] = self._indexes(fields)
        self.ttl = self._one("ttl")
        self.version = self._one("version")
        if self.version is not None and dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            raise BadModel(f"{kind.__name__} is frozen, and {self.version.name} counts its writes: leave one of them.")
        every = [part for index in self.indexes.values() for part in (*index.hash, *index.sort)]
        self.templates = tuple({part.attribute: part for part in (*self.key, *every) if part.field is None}.values())
        self.record.computed = frozenset(part.attribute for part in self.templates)
        self.table_key = TableKey.parse(tuple(f"{part.attribute}:{part.type}" for part in self.key))
        self.key_names = tuple(dict.fromkeys(name for part in self.key for name in part.names))
        self._plain_key = None
        if all(part.field is not None for part in self.key):
            self._plain_key = [(part.attribute, part.field.converter.write) for part in self.key if part.field]
        self.literals = {name: values for name, values in self.record.literals.items() if len(values) == 1}
        self.is_one_of_several = bool(self.literals) or any(part.field is None for part in self.key)
        """Whether its items can be told from those of other classes in the table."""

    @property
    def name(self) -> str:
        return self.kind.__name__

    def _one(self, option: str) -> Field | None:
        found = [one for one in self.record.fields if getattr(one.options, option)]
        if len(found) > 1:
            raise BadModel(f"{self.name} has {option}=True twice: {found[0].name} and {found[1].name}.")
        return found[0] if found else None

    def _table_key(self, fields: Iterable[Field]) -> Parts:
        if self.options is not None and self.options.keys is not None:
            return self._templated(self.options.keys)
        hashes = [one for one in fields if one.options.key]
        sorts = [one for one in fields if one.options.sort]
        if len(hashes) != 1 or len(sorts) > 1:
            raise BadModel(
                f"{self.name} has {len(hashes)} attributes with key=True and {len(sorts)} with sort=True: a table has "
                "one partition key, attr(key=True), and at most one sort key, attr(sort=True)."
            )
        return tuple(self._part(one) for one in (*hashes, *sorts))

    def _part(self, one: Field) -> KeyPart:
        tags = [tag for tag in one.converter.tags if tag != "NULL"]
        if len(tags) != 1 or tags[0] not in ("S", "N", "B"):
            raise BadModel(f"{self.name}.{one.name} is a key, and {one.converter.name} is no text, number or bytes.")
        return KeyPart(one.attribute, tags[0], one)

    def _templated(self, keys: Mapping[str, str]) -> Parts:
        return tuple(self._template(attribute, template) for attribute, template in keys.items())

    def _template(self, attribute: str, template: str) -> KeyPart:
        if attribute in self.record.by_attribute:
            raise BadModel(f"{self.name}: {attribute} is made by a template, and an attribute of the class too.")
        part = KeyPart(attribute, "S", None, template)
        strangers = [name for name in part.names if name not in self.record.by_name]
        if strangers:
            raise BadModel(f"{self.name} has no {strangers[0]}, which {attribute}={template!r} is made of.")
        return part

    def _indexes(self, fields: tuple[Field, ...]) -> dict[str, ModelIndex]:
        found: dict[str, ModelIndex] = {}
        for name in dict.fromkeys(n for one in fields for n in (*one.options.index, *one.options.index_sort)):
            hashes = tuple(self._part(one) for one in fields if name in one.options.index)
            sorts = tuple(self._part(one) for one in fields if name in one.options.index_sort)
            found[name] = ModelIndex(name, hashes or self.key[:1], sorts, local=not hashes)
        for name, keys in ((self.options and self.options.indexes) or {}).items():
            parts = self._templated(keys)
            found[name] = ModelIndex(name, parts[:1], parts[1:])
        return found

    # ── items ────────────────────────────────────────────────────────────────────────────────────

    def write(self, value: Any) -> wire.Item:
        """The item of an instance, with its keys. Raises Refused."""
        item = self.record.write(value)
        if self.templates:
            values = {one.name: getattr(value, one.name) for one in self.record.fields}
            for part in self.templates:
                if all(values[name] is not None for name in part.names):
                    item[part.attribute] = part.write(values, self.record)
        return item

    def key_of(self, key: Any) -> wire.Item:
        """The key on the wire: of an instance, a value, a tuple or a dict of attributes."""
        plain = self._plain_key
        several = key if type(key) is tuple else (key,)
        try:
            if plain is not None and len(several) == len(plain) and type(several[0]) in (str, int, bytes):
                return {part[0]: part[1](one) for part, one in zip(plain, several, strict=True)}
            values = self._key_values(key)
            return {part.attribute: part.write(values, self.record) for part in self.key}
        except Refused as refused:
            raise refused.at() from None

    def _key_values(self, key: Any) -> dict[str, Any]:
        if isinstance(key, self.kind):
            return {name: getattr(key, name) for name in self.key_names}
        names = self.key_names
        if isinstance(key, Mapping):
            given = {self._named(name): value for name, value in key.items()}
        else:
            several = key if isinstance(key, tuple) else (key,)
            given = dict(zip(names, several, strict=len(several) == len(names)))
            if len(several) != len(names):
                raise TypeError(f"{self.name} has the key ({', '.join(names)}), {len(names)} values; given {key!r}")
        if set(given) != set(names):
            raise TypeError(f"{self.name} has the key ({', '.join(names)}); given {', '.join(given) or 'nothing'}")
        return given

    def _named(self, name: str) -> str:
        one = self.record.by_attribute.get(name)
        return name if one is None else one.name

    def owns(self, item: wire.Item) -> bool:
        """Whether an item of a table of several classes is one of this class: by its Literal, and by its templates."""
        if not all(attribute in item for attribute in self.literals) or self.is_foreign(item):
            return False
        return bool(self.literals) or all(part.type in item.get(part.attribute, {}) for part in self.key)

    def is_foreign(self, item: wire.Item) -> bool:
        """Whether an item is of another class for certain: an attribute that is missing says nothing."""
        for attribute, values in self.literals.items():
            if attribute in item and next(iter(item[attribute].values())) != str(values[0]):
                return True
        return not all(part.fits(item, self.record) for part in self.key if part.field is None)


_models: WeakKeyDictionary[type, Model] = WeakKeyDictionary()


def model_of(kind: type) -> Model:
    """The compiled class; made at its first use. Raises BadModel."""
    found = _models.get(kind)
    if found is None:
        found = _models[kind] = Model(kind)
    return found


def models_of(kinds: Iterable[type], name: str | None = None) -> tuple[str, tuple[Model, ...]]:
    """The table's name, and the compiled classes that it has. Raises BadModel."""
    models = tuple(model_of(kind) for kind in kinds)
    names = {one.options.table for one in models if one.options is not None}
    if name is None and len(names) != 1:
        every = ", ".join(one.name for one in models)
        raise BadModel(
            f'{every}: they name {len(names)} tables. Write @penstock.item("users"), or __item__ = '
            'penstock.item("users") in the class, or give name= here.'
        )
    return name or names.pop(), models


def table_of(table: str, models: tuple[Model, ...]) -> tuple[list[ModelIndex], str | None]:
    """The indexes and the TTL of a table that has these classes. Raises BadModel where they disagree."""
    first = models[0]
    indexes: dict[str, tuple[Model, ModelIndex]] = {}
    types: dict[str, tuple[Model, str]] = {}
    ttl: tuple[Model, str] | None = None
    for one in models:
        _agree(table, "the key", (first, _key_text(first.key)), (one, _key_text(one.key)))
        for index in one.indexes.values():
            known, other = indexes.setdefault(index.name, (one, index))
            _agree(table, f"the index {index.name}", (known, _index_text(other)), (one, _index_text(index)))
        for part in (*one.key, *(part for index in one.indexes.values() for part in (*index.hash, *index.sort))):
            mine = (one, part.type)
            _agree(table, f"the type of {part.attribute}", types.setdefault(part.attribute, mine), mine)
        if one.ttl is not None:
            ttl = ttl or (one, one.ttl.attribute)
            _agree(table, "the TTL", ttl, (one, one.ttl.attribute))
    return [index for _, index in indexes.values()], ttl and ttl[1]


def _agree(table: str, what: str, first: tuple[Model, str], second: tuple[Model, str]) -> None:
    if first[1] != second[1]:
        raise BadModel(
            f"{first[0].name} and {second[0].name} are of one table, {table}, and disagree about {what}: "
            f"{first[1]} in {first[0].name}, {second[1]} in {second[0].name}."
        )


def _key_text(parts: Parts) -> str:
    return f"({', '.join(f'{part.attribute}:{part.type}' for part in parts)})"


def _index_text(index: ModelIndex) -> str:
    kind = "local" if index.local else "global"
    return f"{kind} {_key_text((*index.hash, *index.sort))}"
