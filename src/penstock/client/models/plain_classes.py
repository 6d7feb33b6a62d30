"""The reader and the writer of a plain class: one with nothing of its own that runs when an instance is made.

1. A page is read a column at a time: one list for each attribute, in a loop that knows its type. The rows of these
   lists are the instances' values.
2. An instance is written in one loop over its attributes. The usual types (str, int, bool) need no call.
3. No errors are told here. What they stumble over is done again by the loops of records.py, which say what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from penstock.wire import values as wire
from penstock.wire.limits import NUMBER_DIGITS

if TYPE_CHECKING:
    from penstock.client.models.records import Field

Column = Callable[[list[wire.Item]], list[Any]]
"""The values of one attribute in the items of a page."""

_MOST: Final = 10**NUMBER_DIGITS
_KINDS: Final[dict[str, type]] = {"S": str, "BOOL": bool, "N": int}


# ── to the wire ──────────────────────────────────────────────────────────────────────────────────


def writer(fields: Iterable[Field]) -> Callable[[Any], wire.Item]:
    """The item of an instance that has a `__dict__`."""
    steps = tuple(
        (
            one.name,
            one.attribute,
            _KINDS.get(one.converter.inline),
            one.converter.inline,
            one.skips,
            one.converter.write,
        )
        for one in fields
    )

    def write(value: Any) -> wire.Item:
        values, item = value.__dict__, {}
        for name, attribute, kind, tag, skips, write_one in steps:
            given = values[name]
            if type(given) is kind:
                if kind is not int:
                    item[attribute] = {tag: given}
                elif -_MOST < given < _MOST:
                    item[attribute] = {"N": repr(given)}
                else:
                    item[attribute] = write_one(given)
            elif not skips or given or type(given) not in skips:
                item[attribute] = write_one(given)
        return item

    return write


# ── from the wire ────────────────────────────────────────────────────────────────────────────────


def reader(kind: Any, fields: Iterable[Field]) -> Callable[[list[wire.Item]], list[Any]]:
    """Instances of items, filled without a call of the class."""
    those = tuple(fields)
    names = tuple(one.name for one in those)
    columns = tuple(_column(one) for one in those)
    new = object.__new__
    parameters: Any = getattr(kind, "__dataclass_params__", None)
    is_frozen = parameters is not None and parameters.frozen

    def read(items: list[wire.Item]) -> list[Any]:
        found = []
        for row in zip(*[column(items) for column in columns], strict=True):
            made = new(kind)
            made.__dict__ = dict(zip(names, row))  # noqa: B905
            found.append(made)
        return found

    def read_frozen(items: list[wire.Item]) -> list[Any]:
        found = []
        for row in zip(*[column(items) for column in columns], strict=True):
            made = new(kind)
            made.__dict__.update(zip(names, row))  # noqa: B905
            found.append(made)
        return found

    if not names:  # no column has a length
        return lambda items: [new(kind) for _ in items]
    return read_frozen if is_frozen else read


def _column(one: Field) -> Column:
    attribute, read, default = one.attribute, one.converter.read, one.default
    tag = "" if one.converter.takes_none else one.converter.inline
    if default is None:
        return _whole_column(attribute, tag, read)

    def with_default(items: list[wire.Item]) -> list[Any]:
        return [default() if (value := item.get(attribute)) is None else read(value) for item in items]

    def with_default_integers(items: list[wire.Item]) -> list[Any]:
        return [default() if (value := item.get(attribute)) is None else int(value["N"]) for item in items]

    def with_default_tagged(items: list[wire.Item]) -> list[Any]:
        return [default() if (value := item.get(attribute)) is None else value[tag] for item in items]

    return with_default_integers if tag == "N" else with_default_tagged if tag else with_default


def _whole_column(attribute: str, tag: str, read: Callable[[wire.AttributeValue], Any]) -> Column:
    """Of an attribute that every item must have."""

    def integers(items: list[wire.Item]) -> list[Any]:
        return [int(item[attribute]["N"]) for item in items]

    def tagged(items: list[wire.Item]) -> list[Any]:
        return [item[attribute][tag] for item in items]

    def others(items: list[wire.Item]) -> list[Any]:
        return [read(item[attribute]) for item in items]

    return integers if tag == "N" else tagged if tag else others
