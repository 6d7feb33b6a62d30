"""Items as a file to download, a page in memory at a time, up to a limit.

CSV is for spreadsheets. A text that a spreadsheet would take for a formula gets an apostrophe before it, so that stored
text never runs in the reader's spreadsheet. JSON is exact.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Final

import orjson

from penstock.tables.definitions.definition import Table
from penstock.web.dashboard.items.search import Execute, ItemPage, Search, find, key_of
from penstock.wire.values import AttributeValue, Item

MOST_ITEMS: Final = 100_000
_PAGE: Final = 1_000
_MOST_COLUMNS: Final = 200
_OTHERS: Final = "(other attributes)"
_FORMULA: Final = re.compile(r"^[\s\x00-\x1f]*[=+\-@\uff1d\uff0b\uff0d\uff20]")


class Export:
    """A search whose first page has been read: its errors are raised before the response begins."""

    def __init__(self, execute: Execute, table: Table, search: Search, most: int = MOST_ITEMS) -> None:
        self._execute = execute
        self._table = table
        self._search = search
        self._most = most
        self._first = find(execute, table, search, None, _PAGE)

    def json(self) -> Iterator[bytes]:
        """`{"table": …, "items": […], "complete": true}`; `complete` is false where the limit ended it."""
        yield b'{"table":' + orjson.dumps(self._table.name) + b',"items":[\n'
        count, complete = 0, True
        for items, is_last in self._pages():
            texts = [orjson.dumps(item) for item in items]
            if texts:
                yield (b",\n" if count else b"") + b",\n".join(texts)
            count += len(items)
            complete = is_last
        yield b'\n],"count":' + orjson.dumps(count) + b',"complete":' + (b"true" if complete else b"false") + b"}\n"

    def csv(self) -> Iterator[bytes]:
        """Columns are the key and the attributes of the first items; other attributes are in the last column."""
        columns = self._columns(self._first.items)
        yield _line([*columns, _OTHERS])
        complete = True
        for items, is_last in self._pages():
            yield b"".join(_line(_row(item, columns)) for item in items)
            complete = is_last
        if not complete:
            yield _line([f"(ended after {self._most:,} items: there are more)"])

    def _pages(self) -> Iterator[tuple[list[Item], bool]]:
        """Pages, and with the last one whether it was really the last."""
        page, count = self._first, 0
        while True:
            items = page.items[: self._most - count]
            count += len(items)
            whole = page.token is None and len(items) == len(page.items)
            yield items, whole
            if page.token is None or count >= self._most:
                return
            page = self._next(page.token)

    def _next(self, token: str) -> ItemPage:
        return find(self._execute, self._table, self._search, token, _PAGE)

    def _columns(self, items: Sequence[Item]) -> list[str]:
        first = [*self._table.key.names, *key_of(self._table, self._search.index).names]
        others = sorted({name for item in items for name in item})
        return list(dict.fromkeys([*first, *others]))[:_MOST_COLUMNS]


def _row(item: Item, columns: Sequence[str]) -> list[str]:
    known = set(columns)
    others = {name: value for name, value in item.items() if name not in known}
    return [
        *(csv_text(item[name]) if name in item else "" for name in columns),
        orjson.dumps(others).decode() if others else "",
    ]


def csv_text(value: AttributeValue) -> str:
    """A text as it is, a number with all its digits, anything else as DynamoDB's JSON."""
    if "S" in value:
        return str(value["S"])
    if "N" in value:
        return str(value["N"])
    if "BOOL" in value:
        return "true" if value["BOOL"] else "false"
    return "" if "NULL" in value else orjson.dumps(value).decode()


_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?(E[+-]?[0-9]+)?", re.ASCII)


def escape_formula(text: str) -> str:
    """The text in a form that no spreadsheet takes for a formula. A negative number is none."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def _line(cells: Sequence[str]) -> bytes:
    stream = io.StringIO()
    csv.writer(stream).writerow([escape_formula(cell) for cell in cells])
    return stream.getvalue().encode("utf-8", "replace")
