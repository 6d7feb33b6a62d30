"""Values that JSON does not have, such as a dataclass or a datetime, stored and read by the annotation of their place.

1. The annotation decides, and nothing in the JSON names a type: it is as readable as if it were written by hand.
2. What is stored comes back equal, and of the same type. What would not is refused when it is stored, with its path.
3. Where an annotation needs no conversion there is no converter: JSON's own check (json_text.py) is all that is done.
4. What an older version of a class has stored is read: fields that are missing take their defaults. Fields that the
   class does not have are refused, as a task's parameters are: what somebody has written is not dropped silently.
"""

from __future__ import annotations

import base64
import binascii
import re
import sys
import types
from collections import abc
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, InitVar, dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from decimal import InvalidOperation as BadDecimal
from enum import Enum
from functools import lru_cache
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import orjson

from penstock.jobs.model.job import BadJob
from penstock.jobs.model.json_text import NotJson, WrongValue

_DEPTH_REASON: Final = "is nested too deeply, or holds itself."
_ARGUMENTS_SHOWN: Final = 40


@dataclass(slots=True)
class Converter:
    """How the values of one annotation are stored and read. Both functions raise WrongValue."""

    name: str
    """The annotation, as errors call it."""
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]

    def to_plain(self, value: object, path: str) -> Any:
        """The value as JSON has it. Raises NotJson with the path to what is wrong."""
        return _at_path(self.write, value, path)

    def from_plain(self, value: object, path: str) -> Any:
        """The value that was stored. Raises NotJson."""
        return _at_path(self.read, value, path)


def _at_path(convert: Callable[[Any], Any], value: object, path: str) -> Any:
    try:
        return convert(value)
    except WrongValue as wrong:
        raise NotJson(f"{path}{wrong.path}", wrong.reason) from wrong.__cause__
    except RecursionError:
        raise NotJson(path, _DEPTH_REASON) from None


def converter_of(annotation: object, names: Mapping[str, Any] | None = None) -> Converter | None:
    """How values of this annotation are stored; None where JSON has them (3).

    `names` are those that texts in annotations may use beside the globals of their module.
    """
    if not names:
        try:
            return _known_converter(annotation)
        except TypeError:  # an annotation that cannot be hashed
            pass
    return _Builder(names or {}).converter(annotation)


@lru_cache(1_024)
def _known_converter(annotation: object) -> Converter | None:
    return _Builder({}).converter(annotation)


class FunctionTypes(NamedTuple):
    """The converters of a function's parameters and of what it returns."""

    parameters: dict[str, Converter]
    others: Converter | None
    """Of `**others`."""
    result: Converter | None
    unresolved: dict[str, str]
    """Annotations that name what cannot be found, by parameter: names that are imported for checkers only."""

    @property
    def converts(self) -> bool:
        """Whether any argument needs a converter."""
        return bool(self.parameters) or self.others is not None

    def write(self, arguments: dict[str, Any], path: str) -> dict[str, Any]:
        """The arguments as JSON has them. Raises NotJson."""
        return {name: self._convert(name, value, path, "to_plain") for name, value in arguments.items()}

    def read(self, arguments: dict[str, Any], path: str) -> dict[str, Any]:
        """The arguments that were stored. Raises NotJson."""
        return {name: self._convert(name, value, path, "from_plain") for name, value in arguments.items()}

    def _convert(self, name: str, value: object, path: str, how: str) -> Any:
        converter = self.parameters.get(name, self.others)
        return value if converter is None else getattr(converter, how)(value, f"{path}.{name}")


def types_of_function(
    function: Callable[..., Any], parameters: frozenset[str], names: Mapping[str, Any] | None = None
) -> FunctionTypes:
    """By its annotations. `parameters` are those that are stored; what others are named goes to its `**others`."""
    hints, unresolved = _hints_of(function, names)
    returned = hints.pop("return", None)
    code = function.__code__
    others = None
    if code.co_flags & _VAR_KEYWORD:
        last = code.co_varnames[code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & _VAR_POSITIONAL)]
        others = converter_of(hints.pop(last, None), names)
        parameters = parameters - {last}
    found = {name: converter_of(hints[name], names) for name in hints if name in parameters}
    converters = {name: converter for name, converter in found.items() if converter is not None}
    return FunctionTypes(converters, others, converter_of(returned, names), unresolved)


_VAR_POSITIONAL: Final = 0x04
_VAR_KEYWORD: Final = 0x08
"""Of `code.co_flags`."""


def returned_type(function: Callable[..., Any]) -> Converter | None:
    """The converter of what a function returns; None where JSON has it, and where nothing says what it returns."""
    if "return" not in getattr(function, "__annotations__", ()):
        return None
    return converter_of(_hints_of(function, None, only="return")[0].get("return"))


def _hints_of(
    function: Callable[..., Any], names: Mapping[str, Any] | None, only: str = ""
) -> tuple[dict[str, Any], dict[str, str]]:
    """A function's annotations by parameter, and the texts of those that cannot be resolved."""
    spaces = getattr(function, "__globals__", {}), dict(names or {})
    hints: dict[str, Any] = {}
    unresolved: dict[str, str] = {}
    for name, annotation in getattr(function, "__annotations__", {}).items():
        if only in ("", name):
            one: Any = types.SimpleNamespace(__annotations__={name: annotation})
            try:
                hints |= get_type_hints(one, *spaces, include_extras=True)
            except Exception:  # whatever the text of an annotation raises
                unresolved[name] = str(annotation)
    return hints, unresolved


# ── converters ───────────────────────────────────────────────────────────────────────────────────


def _wrong_kind(value: object, wanted: str) -> WrongValue:
    return WrongValue(f"is a {type(value).__name__}, where {wanted} is annotated.")


def _below(step: str, convert: Callable[[Any], Any], value: object) -> Any:
    """What is converted, with the step to it in the path of an error."""
    try:
        return convert(value)
    except WrongValue as wrong:
        wrong.path = step + wrong.path
        raise


def _text_converter(kind: type, write: Callable[[Any], str], read: Callable[[str], Any]) -> Converter:
    """For a type that is stored as a text."""

    def write_checked(value: Any) -> str:
        if type(value) is not kind:
            raise _wrong_kind(value, f"a {kind.__name__}")
        return write(value)

    def read_checked(text: Any) -> Any:
        if type(text) is not str:
            raise _wrong_kind(text, f"a {kind.__name__}")
        try:
            return read(text)
        except (ValueError, BadDecimal, OverflowError, ZoneInfoNotFoundError):
            raise WrongValue(f"is a text that is no {kind.__name__}.") from None

    return Converter(kind.__name__, write_checked, read_checked)


def _write_moment(value: datetime | time) -> str:
    """ISO 8601; with a time zone of its own in brackets behind it (RFC 9557): its rules are part of the value."""
    zone = value.tzinfo.key if isinstance(value.tzinfo, ZoneInfo) else None
    if value.fold and (value.tzinfo is None or isinstance(value, time)):  # elsewhere the offset tells
        raise WrongValue("has a fold, which its text cannot hold: give it a time zone of zoneinfo.")
    return value.isoformat() + ("" if zone is None else f"[{zone}]")


def _read_datetime(text: str) -> datetime:
    text, _, zone = text.rstrip("]").partition("[")
    at = datetime.fromisoformat(text)
    if not zone:
        return at
    local = at.replace(tzinfo=ZoneInfo(zone))
    for fold in (0, 1):
        if local.replace(fold=fold).utcoffset() == at.utcoffset():
            return local.replace(fold=fold)
    return at.astimezone(ZoneInfo(zone))  # the zone's rules have changed since: the moment has not


def _read_time(text: str) -> time:
    text, _, zone = text.rstrip("]").partition("[")
    at = time.fromisoformat(text)
    return at.replace(tzinfo=ZoneInfo(zone)) if zone else at


_DURATION: Final = re.compile(r"(-?)P(\d{1,9})DT(\d{1,2})H(\d{1,2})M(\d{1,2})(?:\.(\d{6}))?S")
_DAY: Final = timedelta(days=1)


def _write_duration(value: timedelta) -> str:
    """ISO 8601, to the microsecond: `P3DT4H5M6S`."""
    sign = "-" if value < timedelta(0) else ""
    days, rest = divmod(-value if sign else value, _DAY)
    minutes, seconds = divmod(rest.seconds, 60)
    part = f".{rest.microseconds:06d}" if rest.microseconds else ""
    return f"{sign}P{days}DT{minutes // 60}H{minutes % 60}M{seconds}{part}S"


def _read_duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(text)
    days, hours, minutes, seconds, microseconds = (int(part or 0) for part in match.groups()[1:])
    # The sign goes to each part: minus the longest one is within the range, the longest one may not be.
    sign = -1 if match[1] else 1
    return timedelta(sign * days, sign * (hours * 3600 + minutes * 60 + seconds), sign * microseconds)


def _read_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(text) from error


def _path_converter(kind: type[PurePath]) -> Converter:
    def write(value: Any) -> str:
        if not isinstance(value, kind):
            raise _wrong_kind(value, f"a {kind.__name__}")
        return str(value)

    return Converter(kind.__name__, write, _text_converter(kind, str, kind).read)


_LEAVES: Final[dict[object, Converter]] = {
    datetime: _text_converter(datetime, _write_moment, _read_datetime),
    date: _text_converter(date, date.isoformat, date.fromisoformat),
    time: _text_converter(time, _write_moment, _read_time),
    timedelta: _text_converter(timedelta, _write_duration, _read_duration),
    Decimal: _text_converter(Decimal, str, Decimal),
    UUID: _text_converter(UUID, str, UUID),
    bytes: _text_converter(bytes, lambda value: base64.b64encode(value).decode(), _read_base64),
    **{kind: _path_converter(kind) for kind in (Path, PurePath, PurePosixPath, PureWindowsPath)},
}


def _enum_converter(kind: type[Enum]) -> Converter:
    """By value; by name where a value is not text, a number or None."""
    by_value = all(isinstance(member.value, str | int | float | None) for member in kind)

    def write(value: Any) -> Any:
        if not isinstance(value, kind):
            raise _wrong_kind(value, f"a {kind.__name__}")
        return value.value if by_value else value.name

    def read(plain: Any) -> Enum:
        try:
            return kind(plain) if by_value else kind[plain]
        except (ValueError, KeyError, TypeError):
            raise WrongValue(f"is no {kind.__name__}.") from None

    return Converter(kind.__name__, write, read)


_PLAIN_KINDS: Final[dict[object, tuple[type, ...]]] = {
    str: (str,),
    int: (int,),
    float: (float, int),
    bool: (bool,),
    types.NoneType: (types.NoneType,),
    dict: (dict,),
    list: (list,),
}


def _plain_member(annotation: object) -> Converter:
    """For a member of a union that needs no conversion: it says which values are its own."""
    if get_origin(annotation) is Literal:
        allowed = get_args(annotation)
        return _checked("Literal", lambda value: any(type(value) is type(one) and value == one for one in allowed))
    kind = get_origin(annotation) or annotation
    kinds = _PLAIN_KINDS.get(kind)
    if kinds is None and isinstance(kind, type) and issubclass(kind, abc.Sequence | abc.Mapping):
        kinds = (dict,) if issubclass(kind, abc.Mapping) else (list,)
    name = getattr(kind, "__name__", str(kind))
    return _checked(name, (lambda value: True) if kinds is None else (lambda value: type(value) in kinds))


def _checked(name: str, is_own: Callable[[Any], bool]) -> Converter:
    def same(value: Any) -> Any:
        if not is_own(value):
            raise _wrong_kind(value, name)
        return value

    return Converter(name, same, same)


def _union_converter(members: list[Converter]) -> Converter:
    """Stored by the first member that takes the value, if what is stored is then read by the same one (2)."""
    name = " | ".join(member.name for member in members)

    def read_by(plain: Any) -> tuple[Converter, Any]:
        wrong: WrongValue | None = None
        for member in members:
            try:
                return member, member.read(plain)
            except WrongValue as error:
                wrong = error if wrong is None or len(error.path) > len(wrong.path) else wrong
        raise wrong if wrong is not None and wrong.path else _wrong_kind(plain, name)

    def write(value: Any) -> Any:
        wrong: WrongValue | None = None
        for member in members:
            try:
                plain = member.write(value)
            except WrongValue as error:
                wrong = error if wrong is None or len(error.path) > len(wrong.path) else wrong
                continue
            reader = read_by(plain)[0]
            if reader is not member:
                raise WrongValue(
                    f"is a {type(value).__name__}, and would come back as {reader.name}: nothing in its JSON tells the "
                    f'types of {name} apart. Give each a field such as kind: Literal["card"], or annotate one of them.'
                )
            return plain
        raise wrong if wrong is not None and wrong.path else _wrong_kind(value, name)

    return Converter(name, write, lambda plain: read_by(plain)[1])


def _optional_converter(inner: Converter) -> Converter:
    return Converter(
        f"{inner.name} | None",
        lambda value: None if value is None else inner.write(value),
        lambda plain: None if plain is None else inner.read(plain),
    )


def _list_converter(
    name: str, member: Converter | None, taken: tuple[type, ...], make: Callable[[list[Any]], Any], *, is_set: bool
) -> Converter:
    """For what is stored as a list of one kind of members."""
    same = member or Converter("", _same, _same)

    def write(value: Any) -> list[Any]:
        if type(value) not in taken:
            raise _wrong_kind(value, f"a {name}")
        found = [_below(f"[{place}]", same.write, one) for place, one in enumerate(value)]
        # In an order of their own: two equal sets are the same JSON.
        return sorted(found, key=_sort_key) if is_set else found

    def read(plain: Any) -> Any:
        if type(plain) is not list:
            raise _wrong_kind(plain, f"a {name}")
        return make([_below(f"[{place}]", same.read, one) for place, one in enumerate(plain)])

    return Converter(name, write, read)


def _same(value: Any) -> Any:
    return value


def _sort_key(plain: Any) -> tuple[str, str]:
    return type(plain).__name__, repr(plain)


def _tuple_converter(members: list[Converter | None], name: str) -> Converter:
    """For a tuple of a fixed length."""
    kept = [member or Converter("", _same, _same) for member in members]

    def write(value: Any) -> list[Any]:
        if type(value) is not tuple or len(value) != len(kept):
            raise WrongValue(f"is {_described(value)}, where a {name} of {len(kept)} is annotated.")
        return [
            _below(f"[{place}]", one.write, item) for place, (one, item) in enumerate(zip(kept, value, strict=True))
        ]

    def read(plain: Any) -> tuple[Any, ...]:
        if type(plain) is not list or len(plain) != len(kept):
            raise WrongValue(f"is {_described(plain)}, where a {name} of {len(kept)} is annotated.")
        return tuple(
            _below(f"[{place}]", one.read, item) for place, (one, item) in enumerate(zip(kept, plain, strict=True))
        )

    return Converter(name, write, read)


def _described(value: object) -> str:
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, list | tuple) else "")


def _dict_converter(key: Converter | None, member: Converter | None) -> Converter:
    keys, members = (one or Converter("", _same, _same) for one in (key, member))

    def write(value: Any) -> dict[Any, Any]:
        if type(value) is not dict:
            raise _wrong_kind(value, "a dict")
        return {
            _below(f".{name}", keys.write, name): _below(f".{name}", members.write, one) for name, one in value.items()
        }

    def read(plain: Any) -> dict[Any, Any]:
        if type(plain) is not dict:
            raise _wrong_kind(plain, "a dict")
        return {
            _below(f".{name}", keys.read, name): _below(f".{name}", members.read, one) for name, one in plain.items()
        }

    return Converter("dict", write, read)


def _write_int(value: Any) -> str:
    if type(value) is not int:
        raise _wrong_kind(value, "an int")
    return str(value)


_INT_KEYS: Final = Converter("int", _write_int, _text_converter(int, str, int).read)


def _pydantic_converter(model: Any) -> Converter:
    """A pydantic model writes and reads itself. One that would not come back as it is, is refused (2)."""

    def write(value: Any) -> Any:
        if type(value) is not model:
            raise _wrong_kind(value, f"a {model.__name__}")
        try:
            plain = value.model_dump(mode="json", by_alias=True, round_trip=True)
            found = read(plain)
        except WrongValue:
            raise
        except Exception as error:  # whatever a serializer of the model's raises
            raise WrongValue(f"cannot be written by its {model.__name__}: {type(error).__name__}.") from error
        if found != value:
            raise WrongValue(f"would come back as another {model.__name__}: its JSON does not hold all of it.")
        return plain

    def read(plain: Any) -> Any:
        try:
            return model.model_validate_json(orjson.dumps(plain))
        except ValueError as error:  # pydantic's own texts would quote the values
            reasons: list[Any] = getattr(error, "errors", list)()
            first = reasons[0] if reasons else {"loc": (), "msg": "it is not valid"}
            wrong = WrongValue(f"is refused by {model.__name__}: {first['msg']}.")
            wrong.path = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in first["loc"])
            raise wrong from None

    return Converter(model.__name__, write, read)


class _Builder:
    """Makes the converters of one annotation. A class that holds itself is met again, and is then the same one."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = dict(names)
        self._made: dict[object, Converter] = {}

    def converter(self, annotation: Any) -> Converter | None:
        """None where JSON has it."""
        if get_origin(annotation) is Annotated:
            return self.converter(annotation.__origin__)
        if annotation in _PLAIN_KINDS or annotation in (None, Any, object):
            return None
        leaf = _LEAVES.get(annotation)
        if leaf is not None:
            return leaf
        if annotation in self._made:
            return self._made[annotation]
        origin = get_origin(annotation)
        if origin in (Union, types.UnionType):
            return self._union(get_args(annotation))
        if hasattr(annotation, "__supertype__"):  # a NewType
            return self.converter(annotation.__supertype__)
        if type(annotation).__name__ == "TypeAliasType":
            return self.converter(annotation.__value__)
        if isinstance(annotation, TypeVar):
            return self.converter(annotation.__bound__)
        kind = origin or annotation
        if not isinstance(kind, type):
            return None
        return self._class(kind, annotation)

    def _class(self, kind: Any, annotation: Any) -> Converter | None:
        arguments = get_args(annotation)
        if issubclass(kind, Enum):
            return _enum_converter(kind)
        if is_dataclass(kind):
            return self._dataclass(kind, annotation)
        if is_typeddict(kind):
            return self._typed_dict(kind, annotation)
        if issubclass(kind, tuple):
            return self._named_tuple(kind, annotation) if hasattr(kind, "_fields") else self._tuple(arguments)
        if kind in (set, frozenset, abc.Set, abc.MutableSet):
            make = frozenset if kind is frozenset else set
            return _list_converter(make.__name__, self._only(arguments), (make,), make, is_set=True)
        if kind in (list, abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection):
            member = self._only(arguments)
            return None if member is None else _list_converter("list", member, (list, tuple), list, is_set=False)
        if kind in (dict, abc.Mapping, abc.MutableMapping):
            return self._dict(arguments)
        pydantic = sys.modules.get("pydantic")  # a class of its kind has imported it
        if pydantic is not None and issubclass(kind, pydantic.BaseModel):
            return _pydantic_converter(annotation)
        return None

    def _only(self, arguments: tuple[Any, ...]) -> Converter | None:
        return self.converter(arguments[0]) if arguments else None

    def _union(self, members: tuple[Any, ...]) -> Converter | None:
        converters = [self.converter(one) for one in members]
        if not any(converters):
            return None
        some = [(one, made) for one, made in zip(members, converters, strict=True) if one is not types.NoneType]
        if len(some) == 1 and some[0][1] is not None:
            found = some[0][1]
        else:
            found = _union_converter([made or _plain_member(one) for one, made in some])
        return _optional_converter(found) if len(some) < len(members) else found

    def _tuple(self, arguments: tuple[Any, ...]) -> Converter:
        if not arguments or arguments[-1] is Ellipsis:
            return _list_converter("tuple", self._only(arguments), (tuple,), tuple, is_set=False)
        return _tuple_converter([self.converter(one) for one in arguments], "tuple")

    def _dict(self, arguments: tuple[Any, ...]) -> Converter | None:
        if not arguments:
            return None
        key = _INT_KEYS if arguments[0] is int else self.converter(arguments[0])
        kind = get_origin(arguments[0]) or arguments[0]
        is_named = isinstance(kind, type) and issubclass(kind, Enum)
        if is_named and not all(isinstance(one.value, str) for one in cast("type[Enum]", kind)):
            raise BadJob(f"The keys of a dict are text in JSON, and {kind.__name__} has values that are not.")
        if key is not None and not is_named and key is not _INT_KEYS and arguments[0] not in _LEAVES:
            raise BadJob(f"The keys of a dict are text in JSON: {key.name} cannot be one. Use a list of pairs.")
        member = self.converter(arguments[1])
        return None if key is None and member is None else _dict_converter(key, member)

    def _hints(self, kind: type, annotation: Any) -> dict[str, Any]:
        """The annotations of a class, with what its own parameters stand for."""
        try:
            hints = get_type_hints(kind, localns=self._names or None, include_extras=True)
        except Exception as error:
            raise BadJob(
                f"The annotations of {kind.__name__} cannot be resolved ({error}). Import what they name at runtime, "
                "not for checkers only."
            ) from error
        given = dict(zip(getattr(kind, "__parameters__", ()), get_args(annotation), strict=False))
        return {name: _substitute(hint, given) for name, hint in hints.items()} if given else hints

    def _placeholder(self, kind: type, annotation: Any) -> Converter:
        made = self._made[annotation] = Converter(kind.__name__, _same, _same)
        return made

    def _dataclass(self, kind: Any, annotation: Any) -> Converter:
        made = self._placeholder(kind, annotation)
        hints = self._hints(kind, annotation)
        for name, hint in hints.items():
            if isinstance(hint, InitVar):
                raise BadJob(
                    f"{kind.__name__}.{name} is an InitVar, which the instance does not keep: make it a field."
                )
        stored = [one for one in fields(kind) if one.init]
        steps = [(one.name, self._field(hints[one.name])) for one in stored]
        made.read = _dataclass_reader(kind, dict(steps), stored)
        made.write = _dataclass_writer(kind, steps, made.read)
        return made

    def _field(self, hint: Any) -> Converter:
        """A Literal is checked: it is what tells the classes of a union apart."""
        if get_origin(hint) is Literal:
            return _plain_member(hint)
        return self.converter(hint) or Converter("", _same, _same)

    def _named_tuple(self, kind: Any, annotation: Any) -> Converter:
        made = self._placeholder(kind, annotation)
        hints = self._hints(kind, annotation)
        members = [self.converter(hints.get(name)) or Converter("", _same, _same) for name in kind._fields]
        fewest = len(members) - len(kind._field_defaults)

        def write(value: Any) -> list[Any]:
            if type(value) is not kind:
                raise _wrong_kind(value, f"a {kind.__name__}")
            steps = zip(kind._fields, members, value, strict=True)
            return [_below(f".{name}", member.write, one) for name, member, one in steps]

        def read(plain: Any) -> Any:
            if type(plain) is not list or not fewest <= len(plain) <= len(members):
                raise WrongValue(f"is {_described(plain)}, where a {kind.__name__} of {len(members)} is annotated.")
            steps = zip(kind._fields, members, plain, strict=False)
            return kind(*(_below(f".{name}", member.read, one) for name, member, one in steps))

        made.write, made.read = write, read
        return made

    def _typed_dict(self, kind: type, annotation: Any) -> Converter | None:
        made = self._placeholder(kind, annotation)
        hints = {name: _unwrapped(hint) for name, hint in self._hints(kind, annotation).items()}
        found = {name: self.converter(hint) for name, hint in hints.items()}
        steps = {name: step for name, step in found.items() if step is not None}
        if not steps:
            del self._made[annotation]
            return None

        def convert(value: Any, how: str) -> dict[str, Any]:
            if type(value) is not dict:
                raise _wrong_kind(value, f"a {kind.__name__}")
            return {
                name: _below(f".{name}", getattr(steps[name], how), one) if name in steps else one
                for name, one in value.items()
            }

        made.write, made.read = lambda value: convert(value, "write"), lambda plain: convert(plain, "read")
        return made


def _unwrapped(hint: Any) -> Any:
    """Without Required, NotRequired and ReadOnly."""
    wrapper = getattr(get_origin(hint), "_name", None)
    return _unwrapped(get_args(hint)[0]) if wrapper in ("Required", "NotRequired", "ReadOnly") else hint


def _substitute(hint: Any, given: dict[Any, Any]) -> Any:
    if isinstance(hint, TypeVar):
        return given.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    return hint[tuple(given.get(one, one) for one in parameters)] if parameters and get_origin(hint) else hint


def _dataclass_writer(
    kind: Any, steps: list[tuple[str, Converter]], read: Callable[[Any], Any]
) -> Callable[[Any], dict[str, Any]]:
    # Its own code may make other fields than those that are stored: what it makes of them is compared (2).
    is_compared = hasattr(kind, "__post_init__") or any(not one.init for one in fields(kind))

    def write(value: Any) -> dict[str, Any]:
        if type(value) is not kind:
            raise _wrong_kind(value, f"a {kind.__name__}")
        plain = {name: _below(f".{name}", step.write, getattr(value, name)) for name, step in steps}
        if is_compared and kind.__dataclass_params__.eq and read(plain) != value:
            raise WrongValue(f"would come back as another {kind.__name__}: its fields with init=False are not stored.")
        return plain

    return write


def _dataclass_reader(kind: Any, steps: dict[str, Converter], stored: list[Field[Any]]) -> Callable[[Any], Any]:
    needed = [one.name for one in stored if one.default is MISSING and one.default_factory is MISSING]

    def read(plain: Any) -> Any:
        if type(plain) is not dict:
            raise _wrong_kind(plain, f"a {kind.__name__}")
        for name in plain:
            if name not in steps:
                raise WrongValue(
                    f"has the field {name[:_ARGUMENTS_SHOWN]!r}, which {kind.__name__} does not have: it was stored by "
                    "another version of it."
                )
        for name in needed:
            if name not in plain:
                raise WrongValue(f"has no {name}, which {kind.__name__} needs. Give the field a default.")
        values = {name: _below(f".{name}", steps[name].read, one) for name, one in plain.items()}
        try:
            return kind(**values)
        except Exception as error:
            raise WrongValue(f"is refused by {kind.__name__}: {type(error).__name__}: {error}") from error

    return read
