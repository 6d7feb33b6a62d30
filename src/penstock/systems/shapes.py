"""The shapes of bodies and answers: one typed description that both reads JSON and documents it.

A shape is a frozen dataclass of plain types: str, int, float, bool, Literal, lists, dicts, other such dataclasses, and
unions with None. `Annotated` adds limits and words:

    @dataclass(frozen=True, slots=True)
    class Order:
        project: Annotated[str, Named("idProject"), Length(1, 200), "Whose report it is."]
        rows: Annotated[int, Between(1, 100_000)] = 100

1. `parse` gives a value of the shape, or every error that there is, each with its path. It never guesses: text is no
   number, a number is no flag, and a member that the shape does not have is an error.
2. `schema` says exactly what `parse` takes, as JSON Schema.
"""

from __future__ import annotations

import math
import types
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True)
class Named:
    """The member's name in JSON, where it is not the field's."""

    name: str


@dataclass(frozen=True, slots=True)
class Between:
    """The smallest and the largest number."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Length:
    """The least and the most characters of a text, or members of a list."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a shape, as JSON has it."""

    field: str
    name: str
    type: Any
    notes: tuple[Any, ...]
    required: bool


class Misshapen(Exception):
    """The value has not that shape: `errors` says all that is wrong with it."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("; ".join(errors))
        self.errors = errors


def parse(shape: Any, value: Any) -> Any:
    """The JSON value as the shape's own value. Raises Misshapen."""
    errors: list[str] = []
    found = _read(shape, (), value, "", errors)
    if errors:
        raise Misshapen(errors)
    return found


@cache
def members(shape: type) -> tuple[Member, ...]:
    hints = get_type_hints(shape, include_extras=True)
    return tuple(_member(one.name, hints[one.name], _is_required(one)) for one in fields(shape))


def _is_required(one: Any) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def _member(field: str, hint: Any, required: bool) -> Member:
    kind, notes = _plain(hint)
    name = next((note.name for note in notes if isinstance(note, Named)), field)
    return Member(field, name, kind, notes, required)


def _plain(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(hint) is Annotated:
        kind, *notes = get_args(hint)
        return kind, tuple(notes)
    return hint, ()


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def _read(kind: Any, notes: tuple[Any, ...], value: Any, path: str, errors: list[str]) -> Any:
    kind, more = _plain(kind)
    notes += more
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _read_union(kind, notes, value, path, errors)
    if is_dataclass(kind):
        return _read_members(kind, value, path, errors)
    if origin is Literal:
        if value not in get_args(kind) or isinstance(value, bool):
            errors.append(f"{_at(path)} is one of {', '.join(map(str, get_args(kind)))}, not {_shown(value)}")
        return value
    if origin in (list, tuple):
        return _read_list(kind, notes, value, path, errors)
    if origin is dict or kind in (dict, Any):
        if kind is not Any and not isinstance(value, dict):
            errors.append(f"{_at(path)} is an object, not {_shown(value)}")
        return value
    return _read_scalar(kind, notes, value, path, errors)


def _read_union(kind: Any, notes: tuple[Any, ...], value: Any, path: str, errors: list[str]) -> Any:
    """Of a type and None; other unions are not described here."""
    (only,) = (one for one in get_args(kind) if one is not type(None))
    return None if value is None else _read(only, notes, value, path, errors)


def _read_members(shape: Any, value: Any, path: str, errors: list[str]) -> Any:
    if not isinstance(value, dict):
        errors.append(f"{_at(path)} is an object, not {_shown(value)}")
        return None
    known = {member.name: member for member in members(shape)}
    before = len(errors)
    for name in value:
        if name not in known:
            errors.append(f"{_at(_join(path, name))} is not known; there are {', '.join(known) or 'none'}")
    found: dict[str, Any] = {}
    for member in known.values():
        if member.name in value:
            place = _join(path, member.name)
            found[member.field] = _read(member.type, member.notes, value[member.name], place, errors)
        elif member.required:
            errors.append(f"{_at(_join(path, member.name))} is missing")
    return shape(**found) if len(errors) == before else None


def _read_list(kind: Any, notes: tuple[Any, ...], value: Any, path: str, errors: list[str]) -> Any:
    if not isinstance(value, list):
        errors.append(f"{_at(path)} is a list, not {_shown(value)}")
        return None
    _check_length(value, "members", notes, path, errors)
    inner = get_args(kind)[0]
    read = [_read(inner, (), one, f"{path}[{place}]", errors) for place, one in enumerate(value)]
    return tuple(read) if get_origin(kind) is tuple else read


_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def _read_scalar(kind: Any, notes: tuple[Any, ...], value: Any, path: str, errors: list[str]) -> Any:
    if not _is_a(kind, value):
        errors.append(f"{_at(path)} is {_WORDS[kind]}, not {_shown(value)}")
        return value
    if kind is str:
        _check_length(value, "characters", notes, path, errors)
    for note in notes:
        if isinstance(note, Between) and not note.low <= value <= note.high:
            errors.append(f"{_at(path)} is from {note.low:g} to {note.high:g}, not {_shown(value)}")
    return value


def _is_a(kind: Any, value: Any) -> bool:
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, kind)


def _check_length(value: Any, what: str, notes: tuple[Any, ...], path: str, errors: list[str]) -> None:
    for note in notes:
        if isinstance(note, Length) and not note.least <= len(value) <= note.most:
            errors.append(f"{_at(path)} has {note.least} to {note.most} {what}, not {len(value)}")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _at(path: str) -> str:
    return path[:_SHOWN] or "the body"


_SHOWN = 100


def _shown(value: Any) -> str:
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    text = "null" if value is None else text
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


# ── describing ───────────────────────────────────────────────────────────────────────────────────


def schema(kind: Any, shapes: dict[str, Any], *, is_open: bool = False) -> dict[str, Any]:
    """JSON Schema of a type; dataclasses are put into `shapes` by name, and referred to.

    An open one may have further members: what is answered, not what `parse` takes.
    """
    kind, notes = _plain(kind)
    return {**_bare(kind, shapes, is_open), **_limits(kind, notes)}


_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}


def _bare(kind: Any, shapes: dict[str, Any], is_open: bool) -> dict[str, Any]:
    origin = get_origin(kind)
    if is_dataclass(kind) and isinstance(kind, type):
        if kind.__name__ not in shapes:
            shapes[kind.__name__] = {}  # it may contain itself
            shapes[kind.__name__] = _object(kind, shapes, is_open)
        return {"$ref": f"#/components/schemas/{kind.__name__}"}
    if origin in (Union, types.UnionType):
        (only,) = (one for one in get_args(kind) if one is not type(None))
        return {"anyOf": [schema(only, shapes, is_open=is_open), {"type": "null"}]}
    if origin is Literal:
        return {"enum": list(get_args(kind))}
    if origin in (list, tuple):
        return {"type": "array", "items": schema(get_args(kind)[0], shapes, is_open=is_open)}
    if kind is Any:
        return {}
    return {"type": _JSON_TYPES[origin or kind]}


def _object(shape: type, shapes: dict[str, Any], is_open: bool) -> dict[str, Any]:
    form: dict[str, Any] = {
        "type": "object",
        "properties": {
            one.name: {**schema(one.type, shapes, is_open=is_open), **_limits(one.type, one.notes)}
            for one in members(shape)
        },
        "required": [one.name for one in members(shape) if one.required],
    }
    if not is_open:
        form["additionalProperties"] = False
    if shape.__doc__ and not shape.__doc__.startswith(f"{shape.__name__}("):
        form["description"] = shape.__doc__.strip()
    return form


def _limits(kind: Any, notes: tuple[Any, ...]) -> dict[str, Any]:
    form: dict[str, Any] = {}
    low, high = ("minLength", "maxLength") if kind is str else ("minItems", "maxItems")
    for note in notes:
        match note:
            case str():
                form["description"] = note
            case Between():
                form.update(minimum=note.low, maximum=note.high)
            case Length():
                form.update({low: note.least, high: note.most})
    return form
