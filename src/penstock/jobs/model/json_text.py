"""Values as JSON text, and back as they were.

1. Only what comes back as it was is taken: dict with text keys, list (a tuple becomes one), str, int, float, bool,
   None.
2. Everything else is refused with the path to it.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

import orjson

from penstock.errors import PenstockError
from penstock.stored_text import storable

_DEPTH: Final = 100
_SLOW: Final = " "
"""A text that orjson could not write begins with it: numbers past 64 bits would come back from orjson as floats."""


class NotJson(PenstockError, ValueError):
    """A value that cannot be stored. `path` says which."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} {reason}")
        self.path = path


class WrongValue(Exception):
    """What is wrong, and where below the value that is being checked; the path is made on the way up."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = ""


def to_json(value: object, path: str) -> str:
    """The value as JSON; `path` is what it is called in an error, such as `args`."""
    try:
        _check(value, _DEPTH)
        try:
            return orjson.dumps(value).decode()
        except (TypeError, UnicodeError):  # integers past 64 bits, named tuples; and text that is not Unicode
            _check_text(value)
            return _SLOW + json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except WrongValue as wrong:
        raise NotJson(f"{path}{wrong.path}", wrong.reason) from None
    except ValueError as error:  # an integer of more digits than Python writes
        raise NotJson(path, f"cannot be written: {error}") from None


def from_json(text: str) -> Any:
    return json.loads(text) if text.startswith(_SLOW) else orjson.loads(text)


def same_json(one: str, other: str) -> bool:
    """Whether two texts are the same value, in whatever order their keys are; 1, 1.0 and true are three values."""
    return one == other or _sorted(one) == _sorted(other)


def to_loggable(data: dict[str, Any]) -> dict[str, Any]:
    """The same, with values that are not JSON as Python shows them: for logs."""
    found: dict[str, Any] = {}
    for name, value in data.items():
        try:
            to_json(value, name)
            found[storable(name)] = value
        except NotJson:
            found[storable(name)] = storable(repr(value))
    return found


def _sorted(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


def _check(value: object, depth: int) -> None:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise WrongValue(f"is {value}, which JSON does not have: use None or a text.")
    elif isinstance(value, dict | list | tuple):
        if depth == 0:
            raise WrongValue(f"is nested more than {_DEPTH} deep.")
        _check_members(value, depth - 1)
    elif not isinstance(value, str | int):
        raise WrongValue(f"is a {kind.__name__}, which JSON does not have: {_advice(kind)}")


def _check_members(value: dict[Any, Any] | list[Any] | tuple[Any, ...], depth: int) -> None:
    step = ""
    try:
        if isinstance(value, dict):
            for name, member in value.items():
                step = name
                if isinstance(name, str):
                    _check(member, depth)
                else:
                    break
            else:
                return
        else:
            for place, member in enumerate(value):  # noqa: B007 - told where one is wrong
                _check(member, depth)
            return
    except WrongValue as wrong:
        wrong.path = (f".{step}" if isinstance(value, dict) else f"[{place}]") + wrong.path
        raise
    raise WrongValue(f"has the key {step!r}, a {type(step).__name__}: JSON's keys are text.")


def _check_text(value: object) -> None:
    """Refuses text that no encoding can write (looked for only where orjson has complained)."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise WrongValue("holds half a surrogate pair, which is no text: store bytes in a file.") from None
    elif isinstance(value, dict):
        for name, member in value.items():
            _check_text(name)
            _check_below(f".{name}", member)
    elif isinstance(value, list | tuple):
        for place, member in enumerate(value):
            _check_below(f"[{place}]", member)


def _check_below(step: str, member: object) -> None:
    try:
        _check_text(member)
    except WrongValue as wrong:
        wrong.path = step + wrong.path
        raise


def _advice(kind: type) -> str:
    name = kind.__name__
    if kind in (bytes, bytearray, memoryview):
        return "save it with ctx.files, or annotate it as bytes."
    if name in _ANNOTATED or hasattr(kind, "__dataclass_fields__") or hasattr(kind, "model_dump") or _is_enum(kind):
        return f"annotate the parameter or what the function returns as {name}; a step takes type={name} too."
    return "pass numbers, text, lists and dicts, or annotate it as a dataclass."


_ANNOTATED: Final = frozenset(
    {"datetime", "date", "time", "timedelta", "Decimal", "UUID", "set", "frozenset", "Path", "PosixPath", "WindowsPath"}
)


def _is_enum(kind: type) -> bool:
    return hasattr(kind, "__members__")
