"""CSV and JSON as rows, as other people's programs write them.

1. A CSV file's encoding (UTF-8, UTF-16, else Windows-1252) and its delimiter are detected. Its first row has the names.
2. Every row has all the columns that it can have: short rows end with empty cells, long ones get further columns.
3. JSON is a list of objects, or an object that has such lists: then each list is a dataset. `.jsonl` is a row a line.
4. An object in a row becomes columns such as `address.city`; a list of plain values becomes one text.
5. What cannot be read is BadData, with its line.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import orjson

from penstock.systems.csv_files import csv_encoding, csv_reader
from penstock.systems.excel_reports.sources.errors import BadData
from penstock.systems.excel_reports.sources.source import MOST_COLUMNS, Row, distinct_names

JSON_BYTES: Final = 64 * 1024 * 1024
"""Of a JSON document, which is read whole. JSON Lines and CSV are read row by row, and have no such limit."""
_DEPTH: Final = 3
_GENERIC: Final = frozenset({"items", "data", "results", "rows", "records", "value", "values", "list", "content"})
"""Names of lists that say nothing: then the file's own name is better."""


# ── CSV ──────────────────────────────────────────────────────────────────────────────────────────


def csv_rows(path: Path) -> Iterator[Row]:
    """The rows of a CSV file, one at a time (1, 2)."""
    with _csv_reader(path) as reader:
        yield from _csv_rows(path.name, reader)


def csv_header(path: Path) -> list[str]:
    """The names of a CSV file's columns, for one that has no rows."""
    with _csv_reader(path) as reader:
        return next((_header(cells) for cells in reader if any(cell.strip() for cell in cells)), [])


@contextmanager
def _csv_reader(path: Path) -> Iterator[Any]:
    with path.open("rb") as data:
        encoding = csv_encoding(data)
    with path.open(encoding=encoding, errors="replace", newline="") as file:
        yield csv_reader(file)


def _csv_rows(name: str, reader: Any) -> Iterator[Row]:
    names: list[str] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue  # an empty line
            if not names:
                names = _header(cells)
                continue
            while len(cells) > len(names):
                names = distinct_names([*names, f"Column {len(names) + 1}"])[:MOST_COLUMNS]
                if len(names) == MOST_COLUMNS:
                    break
            yield dict(zip(names, [*cells, *[""] * (len(names) - len(cells))], strict=False))
    except csv.Error as error:
        raise BadData(f"{name}, line {reader.line_num}: {error}. Is a quotation mark open before it?") from error


def _header(cells: Sequence[str]) -> list[str]:
    given = [" ".join(cell.split()) or f"Column {place}" for place, cell in enumerate(cells, start=1)]
    return distinct_names(given[:MOST_COLUMNS])


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────


def json_datasets(name: str, data: bytes, file: str = "") -> list[tuple[str, list[Row]]]:
    """The datasets of a JSON document with their rows; `name` is that of one which has none of its own (3).

    `file` is what an error names.
    """
    if len(data) > JSON_BYTES:
        raise BadData(f"{name} has more than {JSON_BYTES // 1024**2} MB. Write it as JSON Lines (.jsonl) or CSV.")
    try:
        found = orjson.loads(data.removeprefix(codecs.BOM_UTF8))
    except orjson.JSONDecodeError as error:
        raise BadData(f"{file or name} is no JSON: {error}. Mend it, or take it out of the source.") from error
    if isinstance(found, Mapping):
        lists = {key: value for key, value in found.items() if _is_rows(value)}
        if len(lists) == 1 and next(iter(lists)).casefold() in _GENERIC:
            return [(name, rows_of(next(iter(lists.values()))))]
        return [(key, rows_of(value)) for key, value in lists.items()] or [(name, rows_of([found]))]
    return [(name, rows_of(found if isinstance(found, list) else [found]))]


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, Mapping) for one in value)


def json_lines(path: Path) -> Iterator[Row]:
    """The rows of a JSON Lines file, one at a time."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield flat_row(orjson.loads(line.removeprefix(codecs.BOM_UTF8)))
            except orjson.JSONDecodeError as error:
                raise BadData(f"{path.name}, line {number} is no JSON: {error}") from error


def rows_of(values: Iterable[object]) -> list[Row]:
    return [flat_row(value) for value in values]


def flat_row(value: object) -> Row:
    """A row whose cells are text, numbers, true, false or nothing (4)."""
    if not isinstance(value, Mapping):
        return {"value": _cell(value)}
    found: Row = {}
    _flatten(value, "", found, _DEPTH)
    return found


def _flatten(value: Mapping[Any, Any], before: str, into: Row, depth: int) -> None:
    for key, one in value.items():
        if isinstance(one, Mapping) and one and depth > 1:
            _flatten(one, f"{before}{key}.", into, depth - 1)
        elif len(into) < MOST_COLUMNS:
            into[f"{before}{key}"] = _cell(one)


def _cell(value: object) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        plain = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        if not any(isinstance(one, Mapping | list | tuple) for one in plain):
            return ", ".join("" if one is None else str(one) for one in plain)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"({len(bytes(value)):,} bytes)"
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode().strip('"')
    except orjson.JSONEncodeError:
        return str(value)
