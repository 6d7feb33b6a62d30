"""The reader and the writer of a class as functions of its own, made from source as `dataclasses` makes `__init__`.

A loop over attributes costs more than reading them. The functions have one expression for each attribute, and the usual
types (str, int, bool) without a call. They know no errors: what they stumble over is done again by the loops of
records.py, which say what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from penstock.wire import values as wire
from penstock.wire.limits import NUMBER_DIGITS

if TYPE_CHECKING:
    from penstock.client.models.records import Field

_SAFE = {
    "S": ("type({v}) is str", '{{"S": {v}}}'),
    "N": ("type({v}) is int and -most < {v} < most", '{{"N": repr({v})}}'),
    "BOOL": ("type({v}) is bool", '{{"BOOL": {v}}}'),
}
_READ = {"S": '{v}["S"]', "N": 'int({v}["N"])', "BOOL": '{v}["BOOL"]'}


def writer(fields: Iterable[Field]) -> Callable[[Any], wire.Item]:
    """The item of an instance that has a `__dict__`."""
    names: dict[str, Any] = {"most": 10**NUMBER_DIGITS}
    lines = ["def write(value):", "    values, item = value.__dict__, {}"]
    for number, one in enumerate(fields):
        names[f"w{number}"], names[f"k{number}"] = one.converter.write, one.skips
        written = f"w{number}(v)"
        if one.converter.inline:
            test, text = _SAFE[one.converter.inline]
            written = f"{text.format(v='v')} if {test.format(v='v')} else {written}"
        lines.append(f"    v = values[{one.name!r}]")
        condition = f"if v or type(v) not in k{number}: " if one.skips else ""
        lines.append(f"    {condition}item[{one.attribute!r}] = {written}")
    made: Callable[[Any], wire.Item] = _compiled([*lines, "    return item"], "write", names)
    return made


def reader(kind: type, fields: Iterable[Field]) -> Callable[[list[wire.Item]], list[Any]]:
    """Instances of items, filled without a call of the class."""
    names: dict[str, Any] = {"new": object.__new__, "kind": kind}
    parts = []
    for number, one in enumerate(fields):
        names[f"r{number}"], names[f"d{number}"] = one.converter.read, one.default
        found = f"item[{one.attribute!r}]" if one.default is None else "v"
        is_plain = one.converter.inline and not one.converter.takes_none
        read = _READ[one.converter.inline].format(v=found) if is_plain else f"r{number}({found})"
        if one.default is not None:
            read = f"d{number}() if (v := item.get({one.attribute!r})) is None else {read}"
        parts.append(f"{one.name!r}: {read}")
    parameters: Any = getattr(kind, "__dataclass_params__", None)
    values = f"{{{', '.join(parts)}}}"
    fill = f"made.__dict__.update({values})" if parameters and parameters.frozen else f"made.__dict__ = {values}"
    lines = ["def read(items):", "    found = []", "    for item in items:", "        made = new(kind)"]
    lines += [f"        {fill}", "        found.append(made)", "    return found"]
    made: Callable[[list[wire.Item]], list[Any]] = _compiled(lines, "read", names)
    return made


def _compiled(lines: list[str], name: str, names: dict[str, Any]) -> Any:
    """The function. Every name in it that is not ours stands there as a text, by `repr`."""
    exec("\n".join(lines), names)  # noqa: S102
    return names[name]
