"""The compiled reader and writer of a class: a dataclass or a pydantic model.

1. None is not stored where its absence is read as None again; elsewhere, and with `attr(null=True)`, it is NULL. An
   empty set, which DynamoDB does not have, is not stored either.
2. An attribute that is missing takes the class's default. Without one an optional one is None and a set is empty;
   anything else is refused, and the error names it.
3. Attributes that the class does not have are not read, unless it has one with `attr(rest=True)`, which keeps them.
4. A class with a generated `__init__` and nothing that runs after it is filled without a call. Every other is called,
   and a pydantic model validates.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from penstock.client.items.expressions import F
from penstock.client.items.values import Refused, decode, encode
from penstock.client.models.attributes import Attr, AttrOptions
from penstock.client.models.converters import WRONG, BadModel, Builder, Converter, unwrapped, wrong_kind
from penstock.client.models.plain_classes import reader, writer
from penstock.errors import PenstockError
from penstock.wire import values as wire

OPTIONS: Final = "__penstock_attrs__"
"""Where a class that `@item` made keeps what its `attr(…)`s said."""

_NO_OPTIONS: Final = AttrOptions()
_SETS: Final = (set, frozenset)


class InvalidItem(PenstockError, ValueError):
    """A stored item that a class cannot be made from: `path` names the attribute, `reason` says why."""

    def __init__(self, reason: str, path: str = "", model: str = "") -> None:
        super().__init__(f"{model}: {path}: {reason}" if path else f"{model}: {reason}")
        self.reason = reason
        self.path = path
        self.model = model

    def __reduce__(self) -> tuple[type[InvalidItem], tuple[str, str, str]]:
        return type(self), (self.reason, self.path, self.model)


@dataclass(frozen=True, slots=True)
class Field:
    """One attribute of a class."""

    name: str
    attribute: str
    """Its name in DynamoDB."""
    converter: Converter
    options: AttrOptions
    parameter: str
    """What the class is called with: a pydantic model's alias, or the name."""
    default: Callable[[], Any] | None
    """What is read where the item has none; None where it must have one."""
    skips: tuple[type, ...]
    """The types of empty values that are not stored (1)."""


class Record:
    """A class as attributes: what its instances become, and are made from."""

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.fields: tuple[Field, ...] = ()
        self.rest: Field | None = None
        self.by_name: dict[str, Field] = {}
        self.by_attribute: dict[str, Field] = {}
        self.computed: frozenset[str] = frozenset()
        """Attributes that are made of others, such as keys by a template."""

    def compile(self, builder: Builder) -> None:
        """Resolves the annotations, once."""
        found = _fields_of(self.kind, builder)
        self.fields = tuple(one for one in found if not one.options.rest)
        rests = [one for one in found if one.options.rest]
        if len(rests) > 1:
            raise BadModel(f"{self.kind.__name__} has two attributes with rest=True; one keeps all of them.")
        self.rest = rests[0] if rests else None
        self.by_name = {one.name: one for one in self.fields}
        self.by_attribute = {one.attribute: one for one in self.fields}
        if len(self.by_attribute) < len(self.fields):
            raise BadModel(f"{self.kind.__name__} has two attributes of one name in DynamoDB.")
        self._is_filled = _is_filled(self.kind, found)
        self._extra = _extra_is_allowed(self.kind)
        is_plain = self._is_filled and self.rest is None and not self._extra
        self._write_plain = writer(self.fields) if is_plain and not hasattr(self.kind, "__slots__") else None
        self._read_plain = reader(self.kind, self.fields) if is_plain else None
        self._make = _maker(self.kind)
        self._parameters = {one.name: one.parameter for one in found}

    @property
    def literals(self) -> dict[str, tuple[Any, ...]]:
        """The attributes that have only a few values, by attribute."""
        hints = _hints(self.kind)
        found = {one.attribute: unwrapped(hints[one.name]) for one in self.fields}
        return {name: get_args(hint) for name, hint in found.items() if get_origin(hint) is Literal}

    # ── to the wire ──────────────────────────────────────────────────────────────────────────────

    def write(self, value: Any) -> wire.Item:
        """The attributes of an instance. Raises Refused."""
        if type(value) is not self.kind and not isinstance(value, self.kind):
            raise wrong_kind(value, self.kind.__name__)
        if self._write_plain is not None:
            try:
                return self._write_plain(value)
            except (Refused, KeyError):
                pass  # what follows says which
        item: wire.Item = {}
        name = ""
        try:
            for one in self.fields:
                name = one.name
                given = getattr(value, name)
                if isinstance(given, F):  # the expression of the class: the instance has lost its own
                    raise Refused("the instance does not have it")
                if not one.skips or given or type(given) not in one.skips:
                    item[one.attribute] = one.converter.write(given)
            if self.rest is not None or self._extra:
                self._write_rest(value, item)
        except Refused as refused:
            refused.steps.append(name)
            raise
        except AttributeError:
            raise Refused(f"the instance has no {name}") from None
        return item

    def _write_rest(self, value: Any, item: wire.Item) -> None:
        for name, one in (self._others(value) or {}).items():
            if name in self.by_attribute or name in self.computed:
                raise Refused(f"{name} stands among the rest, and {self.kind.__name__} has an attribute of that name")
            item[name] = encode(one, name)

    def take(self, value: Any, new: Any, attributes: Iterable[str]) -> None:
        """Gives an instance what another one has for these attributes."""
        for attribute in attributes:
            if one := self.by_attribute.get(attribute):
                setattr(value, one.name, getattr(new, one.name))
            elif (others := self._others(value)) is not None:
                theirs = self._others(new) or {}
                others.pop(attribute, None)
                others |= {attribute: theirs[attribute]} if attribute in theirs else {}

    def _others(self, value: Any) -> dict[str, Any] | None:
        """The attributes of an instance that its class does not have."""
        if self.rest is None and not self._extra:
            return None
        others: dict[str, Any] | None = getattr(value, self.rest.name) if self.rest else value.model_extra
        return others

    # ── from the wire ────────────────────────────────────────────────────────────────────────────

    def read_many(self, items: list[wire.Item]) -> list[Any]:
        """The instances of a page. Raises InvalidItem."""
        if self._read_plain is not None:
            try:
                return self._read_plain(items)
            except WRONG:
                pass  # what follows says which
        return [self._read(item) for item in items]

    def read(self, item: wire.Item) -> Any:
        """The instance of an item. Raises InvalidItem."""
        return self._read(item)

    def _read(self, item: wire.Item) -> Any:
        values: dict[str, Any] = {}
        try:
            for one in self.fields:
                found = item.get(one.attribute)
                if found is None and one.default is not None:
                    values[one.name] = one.default()
                else:
                    values[one.name] = one.converter.read(item[one.attribute])
        except WRONG as error:
            raise self._invalid(item, error) from None
        if self.rest is not None:
            values[self.rest.name] = self._unknown(item)
        if not self._is_filled:
            return self._made(values, item)
        made: Any = object.__new__(self.kind)
        made.__dict__.update(values)
        return made

    def _made(self, values: dict[str, Any], item: wire.Item) -> Any:
        given = {self._parameters[name]: value for name, value in values.items()}
        if self._extra and self.rest is None:
            given |= self._unknown(item)
        try:
            return self._make(given)
        except Exception as error:  # whatever the class, or a validator of its, raises
            raise InvalidItem(f"it refuses the item: {error}", "", self.kind.__name__) from error

    def _unknown(self, item: wire.Item) -> dict[str, Any]:
        known, computed = self.by_attribute, self.computed
        return {name: decode(one) for name, one in item.items() if name not in known and name not in computed}

    def _invalid(self, item: wire.Item, error: BaseException) -> InvalidItem:
        """Which attribute it is that cannot be read."""
        if isinstance(error, InvalidItem):
            return error
        for one in self.fields:
            found = item.get(one.attribute)
            if found is None:
                if one.default is None:
                    reason = f"the item does not have it, and {self.kind.__name__}.{one.name} has no default"
                    return InvalidItem(reason, one.attribute, self.kind.__name__)
                continue
            try:
                one.converter.read(found)
            except InvalidItem as inner:
                path = f"{one.attribute}.{inner.path}"
                return InvalidItem(inner.reason, path, self.kind.__name__)
            except WRONG:
                reason = f"the item has {_shown(found)}, where {one.converter.name} is annotated"
                return InvalidItem(reason, one.attribute, self.kind.__name__)
        return InvalidItem(f"it cannot be read: {error}", "", self.kind.__name__)

    def converter(self) -> Converter:
        """As a value inside of another item."""
        return Converter(self.kind.__name__, self._write_map, self._read_map, ("M",), (self.kind,))

    def _write_map(self, value: Any) -> wire.AttributeValue:
        return {"M": self.write(value)}

    def _read_map(self, value: wire.AttributeValue) -> Any:
        return self.read(value["M"])


def _shown(value: wire.AttributeValue) -> str:
    ((tag, content),) = value.items()
    return f"{tag} {content!r:.60}"


# ── classes ──────────────────────────────────────────────────────────────────────────────────────

_records: WeakKeyDictionary[type, tuple[Record, Converter]] = WeakKeyDictionary()


def record_of(kind: type) -> Record:
    """The compiled class; made at its first use. Raises BadModel."""
    found = _compiled(kind)
    if found is None:
        raise BadModel(
            f"{getattr(kind, '__name__', kind)!r} is no class that can be stored: write @penstock.item above it, or "
            "make it a dataclass or a pydantic model."
        )
    return found[0]


def _compiled(kind: type) -> tuple[Record, Converter] | None:
    known = _records.get(kind)
    if known is not None:
        return known
    if not dataclasses.is_dataclass(kind) and not is_pydantic(kind):
        return None
    record = Record(kind)
    converter = record.converter()
    _records[kind] = record, converter  # a class that holds itself meets itself again
    try:
        record.compile(Builder(_class_converter))
    except BaseException:
        del _records[kind]
        raise
    converter.members = {one.attribute: one.converter for one in record.fields}
    converter.literals = record.literals
    return record, converter


def _class_converter(kind: type) -> Converter | None:
    found = _compiled(kind)
    return None if found is None else found[1]


def is_pydantic(kind: type) -> bool:
    """Whether it is a pydantic model; pydantic is never imported for the question."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _hints(kind: type) -> dict[str, Any]:
    try:
        return get_type_hints(kind, include_extras=True)
    except Exception as error:
        raise BadModel(
            f"The annotations of {kind.__name__} cannot be resolved ({error}): import what they name at run time, and "
            "define the class at the top of its module."
        ) from error


def _fields_of(kind: Any, builder: Builder) -> list[Field]:
    hints = _hints(kind)
    declared: dict[str, AttrOptions] = getattr(kind, OPTIONS, {})
    if is_pydantic(kind):
        return [
            _field(kind, name, hints[name], declared, builder, _pydantic_default(one), _alias(name, one))
            for name, one in kind.model_fields.items()
        ]
    return [
        _field(kind, one.name, hints[one.name], declared, builder, _default(one), one.name)
        for one in dataclasses.fields(kind)
        if one.init
    ]


def _field(
    kind: type,
    name: str,
    hint: Any,
    declared: dict[str, AttrOptions],
    builder: Builder,
    default: Callable[[], Any] | None,
    parameter: str,
) -> Field:
    options = declared.get(name) or _annotated(hint) or _NO_OPTIONS
    try:
        converter = builder.attribute(hint, options)
    except BadModel as bad:
        raise BadModel(f"{kind.__name__}.{name}: {bad}") from None
    empty: Any = default() if default is not None else MISSING
    is_set = _SETS[0] in converter.kinds
    skips: tuple[type, ...] = ()
    if converter.takes_none and not options.null and (empty is None or empty is MISSING):
        skips, default = (type(None),), default or _none
    elif is_set and (empty is MISSING or (isinstance(empty, _SETS) and not empty)):
        skips, default = _SETS, default or _empty_set(converter)
    return Field(name, options.name or name, converter, options, parameter, default, skips)


def _none() -> None:
    return None


def _empty_set(converter: Converter) -> Callable[[], Any]:
    return frozenset if converter.name.startswith("frozenset") else set


def _annotated(hint: Any) -> AttrOptions | None:
    if get_origin(hint) is Attr:
        return _annotated(get_args(hint)[0])
    found = [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, AttrOptions)]
    return found[0] if found and get_origin(hint) is Annotated else None


def _default(one: dataclasses.Field[Any]) -> Callable[[], Any] | None:
    if one.default_factory is not MISSING:
        return one.default_factory
    return None if one.default is MISSING else _always(one.default)


def _always(value: Any) -> Callable[[], Any]:
    return lambda: value


def _pydantic_default(one: Any) -> Callable[[], Any] | None:
    return None if one.is_required() else lambda: one.get_default(call_default_factory=True)


def _alias(name: str, one: Any) -> str:
    alias = one.validation_alias if isinstance(one.validation_alias, str) else one.alias
    return alias or name


def _is_filled(kind: Any, fields: Iterable[Field]) -> bool:
    """Whether nothing of the class's own runs when an instance is made (4)."""
    if is_pydantic(kind) or not hasattr(kind, "__dataclass_params__") or hasattr(kind, "__post_init__"):
        return False
    parameters = kind.__dataclass_params__
    is_generated = parameters.init and "__slots__" not in kind.__dict__ and "__init__" in kind.__dict__
    named = {one.name for one in fields}
    every = [one.name for one in dataclasses.fields(kind)]
    has_init_only = any(
        one._field_type is not dataclasses._FIELD and one._field_type is not dataclasses._FIELD_CLASSVAR  # type: ignore[attr-defined]
        for one in kind.__dataclass_fields__.values()
    )
    return is_generated and set(every) == named and not has_init_only and kind.__new__ is object.__new__


def _maker(kind: Any) -> Callable[[dict[str, Any]], Any]:
    if is_pydantic(kind):
        validate: Callable[[dict[str, Any]], Any] = kind.model_validate
        return validate
    return lambda values: kind(**values)


def _extra_is_allowed(kind: Any) -> bool:
    return is_pydantic(kind) and kind.model_config.get("extra") == "allow"
