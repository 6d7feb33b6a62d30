"""What a source of rows is, and which one a text names.

    data/  data/orders.csv           a folder of CSV and JSON files, or one of them
    https://example.org/orders       a URL that gives JSON
    table:Products                   a DynamoDB table of the database that the jobs are in
    table:Products@aws://eu-west-1   a table of another database
    reports:orders                   a Python function, MODULE:FUNCTION

`{project}` in it is replaced by the project's name, as one part of the path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol
from urllib.parse import quote, urlsplit

from penstock.systems.excel_reports.records import BadReport

Row = dict[str, Any]
Place = Literal["folder", "url", "table", "python"]

MOST_SOURCES: Final = 20
"""Of one report: each is read one after the other."""
MOST_SHEETS: Final = 100
"""Of one report: nobody turns more leaves."""
MOST_COLUMNS: Final = 500
"""Of a dataset. Excel has 16,384, and nobody reads them."""
FILE_ENDINGS: Final = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")
TOKEN_VARIABLE: Final = "PENSTOCK_SOURCE_TOKEN"  # noqa: S105 - the name of a variable
_PROJECT: Final = "{project}"
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_TABLE: Final = re.compile(r"table:(?P<name>[A-Za-z0-9_.{}-]{3,255})(?:@(?P<target>\S+))?")


@dataclass(frozen=True, slots=True)
class Dataset:
    """Rows that belong together: they become a sheet. `rows` may be called again, by the next attempt."""

    name: str
    rows: Callable[[], Iterable[Row]]
    header: Callable[[], Sequence[str]] = tuple
    """The names of the columns, for a list that has no rows."""


class Source(Protocol):
    """The rows and the pictures of one report. What it raises should be a SourceError."""

    def datasets(self) -> Sequence[Dataset]: ...

    def picture(self, name: str) -> bytes:
        """The picture that a cell names."""
        ...


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """What a source's text means. `where` is the path, URL or function, or the table's name."""

    text: str
    place: Place
    where: str
    target: str = ""
    """The database of a table; empty for the one that the jobs are in."""

    @property
    def needs_project(self) -> bool:
        return _PROJECT in self.where

    @property
    def shown(self) -> str:
        """For people, and so without the query of a URL, which may hold a secret."""
        if self.place == "url":
            return shown_url(self.where)
        return Path(self.where).name if self.place == "folder" else self.text.partition("@")[0]


def parse_source(text: str) -> SourceAddress:
    """Raises BadReport for a text that names no source."""
    table = _TABLE.fullmatch(text)
    if table is not None:
        return SourceAddress(text, "table", table["name"], table["target"] or "")
    scheme = _SCHEME.match(text)
    if scheme is not None:
        return SourceAddress(text, "url", _checked_url(text, scheme.group(1)))
    if _FUNCTION.fullmatch(text) and not Path(text).exists():
        return SourceAddress(text, "python", text)
    if text.startswith("table:") or not text or "\0" in text:
        raise BadReport([f"source {text[:200]!r} is none: it is {_FORMS}"])
    return SourceAddress(text, "folder", text)


_FORMS: Final = (
    "a folder or file of CSV or JSON, a URL that gives JSON (https://…), table:NAME for a DynamoDB table, or "
    "MODULE:FUNCTION for Python"
)


def shown_url(url: str) -> str:
    """A URL for people: without a user and without its query, which may hold secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _checked_url(text: str, scheme: str) -> str:
    if scheme.lower() not in ("http", "https"):
        raise BadReport([f"source {text[:200]!r} is no http:// or https:// URL; it is {_FORMS}"])
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port  # the port raises where it is none
    except ValueError as error:
        raise BadReport([f"source {text[:200]!r} is no URL: {error}"]) from None
    if not host or any(character <= " " for character in text):
        raise BadReport([f"source {text[:200]!r} is no URL: it has no host, or a blank"])
    if parts.username is not None or parts.password is not None:
        raise BadReport([f"source: a URL is stored with the job, so it may have no password; set {TOKEN_VARIABLE}"])
    return text


def with_project(address: SourceAddress, id_project: str) -> SourceAddress:
    """The address with the project's name in its place. Raises BadReport for a name that leads elsewhere."""
    if not address.needs_project:
        return address
    if address.place == "url":
        name = quote(id_project, safe="")
    elif re.fullmatch(r"[^/\\\0]+", id_project) and id_project not in (".", ".."):
        name = id_project
    else:
        raise BadReport([f"idProject {id_project[:100]!r} is no part of a path, as the source {address.text} needs"])
    if name in (".", ".."):
        raise BadReport([f"idProject {id_project[:100]!r} is no part of a URL"])
    where = address.where.replace(_PROJECT, name)
    return SourceAddress(address.text, address.place, where, address.target)


def distinct_names(names: Iterable[str]) -> list[str]:
    """The names, in their order; one that comes again has a number."""
    found: list[str] = []
    taken: set[str] = set()
    for name in names:
        new, number = name, 1
        while new.casefold() in taken:
            number += 1
            new = f"{name} ({number})"
        taken.add(new.casefold())
        found.append(new)
    return found
