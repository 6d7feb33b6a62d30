"""Items as lines of text: plain JSON, DynamoDB's JSON, and CSV.

1. DynamoDB's JSON and CSV are exact: what was written is read back as the same item.
2. Plain JSON has no sets and no bytes: they are lists and base64 texts, and are read back as such. Numbers keep all
   their digits, in both directions.
3. A column of a CSV file is `name:TYPE`. What does not fit its column (an attribute that no column has, another type,
   an empty text, which CSV cannot tell from a missing one) is in the last column, `*`, as DynamoDB's JSON.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any

import orjson

from penstock.client.items.values import encode_item
from penstock.errors import DynamoDBError, PenstockError
from penstock.wire.values import TYPES, AttributeValue, Item, check_value

REST = "*"
"""The column of what has no column of its own (3)."""

_SAMPLE = 1_000  # items that a CSV file's columns are taken from
_MOST_COLUMNS = 200
_CELL_BYTES = 8 * 1024 * 1024  # an item of 400 KB, each character of it escaped


class BadItemText(PenstockError):
    """A text that is no item: where, and why."""


def plain_value(value: AttributeValue) -> Any:
    """A value as orjson takes it (2)."""
    ((kind, content),) = value.items()
    match kind:
        case "N":
            return orjson.Fragment(content)
        case "NULL":
            return None
        case "M":
            return {name: plain_value(one) for name, one in content.items()}
        case "L":
            return [plain_value(one) for one in content]
        case "NS":
            return [orjson.Fragment(one) for one in content]
    return content


def plain_item(item: Item) -> dict[str, Any]:
    return {name: plain_value(value) for name, value in item.items()}


def line_of(item: Item, *, exact: bool) -> str:
    """One line: DynamoDB's JSON if it is to be exact, plain JSON otherwise."""
    return orjson.dumps(item if exact else plain_item(item)).decode()


def read_items(lines: Iterable[str | bytes], *, exact: bool, name: str) -> Iterator[tuple[int, Item]]:
    """The items of JSON lines, or of one JSON array on one line, each with its line. Blank lines are passed over.

    Raises BadItemText, which names the line.
    """
    for number, line in enumerate(lines, 1):
        try:
            text = line.decode() if isinstance(line, bytes) else line
        except UnicodeDecodeError as error:
            raise BadItemText(f"{name}, line {number}: it is not in UTF-8 ({error.reason}).") from None
        text = text.removeprefix("\ufeff").strip()
        if not text:
            continue
        try:
            read = json.loads(text, parse_float=_number, parse_constant=_no_constant)
            if "\\ud" in text or "\\uD" in text:  # half of a pair is no character, and no UTF-8 can say it
                json.dumps(read, ensure_ascii=False, default=str).encode()
        except (ValueError, RecursionError) as error:
            raise BadItemText(f"{name}, line {number}: no JSON object on one line ({error}).") from None
        for one in read if isinstance(read, list) else (read,):
            yield number, _item_of(one, exact=exact, where=f"{name}, line {number}")


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text[:40]} is no number that DynamoDB has") from None


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number that DynamoDB has")


def _item_of(form: Any, *, exact: bool, where: str) -> Item:
    if not isinstance(form, dict) or not form:
        raise BadItemText(f"{where}: an item is a JSON object with attributes, not {str(form)[:40]}.")
    if not exact:
        try:
            return encode_item(form)
        except PenstockError as error:
            raise BadItemText(f"{where}: {error}") from None
    inner = form
    if set(form) == {"Item"} and isinstance(form["Item"], dict) and not set(form["Item"]) <= set(TYPES):
        inner = form["Item"]  # a line of an export
    name = ""
    try:
        found: Item = {}
        for name, value in inner.items():
            found[name] = check_value(value)
        return found
    except (DynamoDBError, AttributeError, TypeError) as error:
        said = getattr(error, "message", f"{name} is {str(inner[name])[:40]!r}")
        raise BadItemText(f'{where}: not in DynamoDB\'s JSON, such as {{"id": {{"S": "1"}}}} ({said}).') from None


# ── CSV ──────────────────────────────────────────────────────────────────────────────────────────


def csv_lines(items: Iterable[Item], first: Sequence[str] = ()) -> Iterator[str]:
    """A header and a line for each item; `first` are the names of the leading columns, those of the key."""
    items = iter(items)
    sample = list(islice(items, _SAMPLE))
    columns = _columns(sample, first)
    yield _csv_line([*(f"{name}:{kind}" for name, kind in columns), REST])
    for item in sample:
        yield _csv_line(_cells(item, columns))
    for item in items:
        yield _csv_line(_cells(item, columns))


def _columns(sample: Sequence[Item], first: Sequence[str]) -> list[tuple[str, str]]:
    """Each attribute with the type that it has first."""
    types: dict[str, str] = {}
    for item in sample:
        for name, value in item.items():
            types.setdefault(name, next(iter(value)))
    others = sorted(name for name in types if name not in first)
    return [(name, types[name]) for name in [*(one for one in first if one in types), *others][:_MOST_COLUMNS]]


def _cells(item: Item, columns: Sequence[tuple[str, str]]) -> list[str]:
    cells: list[str] = []
    rest = dict(item)
    for name, kind in columns:
        content = item.get(name, {}).get(kind)
        text = "" if content is None else _cell(kind, content)
        if text:
            del rest[name]
        cells.append(text)
    return [*cells, orjson.dumps(rest).decode() if rest else ""]


def _cell(kind: str, content: Any) -> str:
    if kind in ("S", "N", "B"):
        return str(content)
    return orjson.dumps(content).decode()


def _csv_line(cells: Sequence[str]) -> str:
    stream = io.StringIO()
    # The writer quotes a cell that has a character of its line's end: both kinds of line break have to be.
    csv.writer(stream, lineterminator="\r\n").writerow(cells)
    return stream.getvalue()[:-2] + "\n"


def read_csv(lines: Iterable[str], types: dict[str, str], *, name: str) -> Iterator[tuple[int, Item]]:
    """The items of a CSV file, each with its line. A column without a type is one of the key, by `types`, or a text."""
    csv.field_size_limit(max(csv.field_size_limit(), _CELL_BYTES))
    reader = csv.reader(lines, strict=True)
    try:
        header = next((cells for cells in reader if cells), None)
        if header is None:
            return
        columns = [_column(one, types, name) for one in [header[0].removeprefix("\ufeff"), *header[1:]]]
        for cells in reader:
            if cells:
                yield reader.line_num, _csv_item(cells, columns, f"{name}, line {reader.line_num}")
    except csv.Error as error:
        raise BadItemText(f"{name}, line {reader.line_num}: {error}.") from None
    except UnicodeDecodeError as error:
        raise BadItemText(f"{name}, after line {reader.line_num}: it is not in UTF-8 ({error.reason}).") from None


def _column(text: str, types: dict[str, str], name: str) -> tuple[str, str]:
    if text == REST:
        return REST, REST
    attribute, colon, kind = text.rpartition(":")
    if colon and attribute and kind in TYPES:
        return attribute, kind
    if not text:
        raise BadItemText(f"{name}, line 1: a column has no name. The first line is a header such as id:S,total:N.")
    return text, types.get(text, "S")


def _csv_item(cells: Sequence[str], columns: Sequence[tuple[str, str]], where: str) -> Item:
    if len(cells) != len(columns):
        raise BadItemText(f"{where}: {len(cells)} cells under {len(columns)} columns.")
    item: Item = {}
    for (name, kind), cell in zip(columns, cells, strict=True):
        if not cell:
            continue
        try:
            if kind == REST:
                item |= {one: check_value(value) for one, value in orjson.loads(cell).items()}
            else:
                item[name] = check_value({kind: cell if kind in ("S", "N", "B") else orjson.loads(cell)})
        except (DynamoDBError, orjson.JSONDecodeError, AttributeError, TypeError) as error:
            said = getattr(error, "message", str(error))
            raise BadItemText(f"{where}: {name} is {cell[:40]!r}, which is no {kind} ({said}).") from None
    return item
