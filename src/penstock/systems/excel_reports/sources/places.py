"""The places that rows come from: a folder or a file, a URL, a DynamoDB table, a Python function.

1. A source is checked before a job is made (`check`): a folder without data, or a function that cannot be imported, is
   refused at once.
2. Pictures of a folder are files inside it; no link or `..` leads out of it. Those of a function are in the folder that
   the process was started in, those of a URL on the same host.
3. A Python function runs only where its name was given to this very process: a name in a table is no permission.
"""

from __future__ import annotations

import inspect
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from penstock.client.database import Database, connect
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.systems.excel_reports.records import BadReport, plain
from penstock.systems.excel_reports.sources.download import download, same_host, source_token
from penstock.systems.excel_reports.sources.errors import (
    BadData,
    SourceError,
    SourceMissing,
    SourceRefused,
    SourceUnreachable,
)
from penstock.systems.excel_reports.sources.file_formats import (
    JSON_BYTES,
    csv_header,
    csv_rows,
    flat_row,
    json_datasets,
    json_lines,
)
from penstock.systems.excel_reports.sources.source import (
    FILE_ENDINGS,
    MOST_SHEETS,
    Dataset,
    Row,
    Source,
    SourceAddress,
    distinct_names,
    parse_source,
    shown_url,
    with_project,
)
from penstock.user_modules import load_attribute

PICTURE_BYTES: Final = 20 * 1024 * 1024
"""Of one picture, as it comes: a photograph of today's cameras has half of it."""
_PICTURE_FOLDERS: Final = frozenset(
    ("images", "pictures", "photos", "img", "bilder", "fotos", "foto", "imagenes", "imágenes", "imagens", "immagini")
)
"""Folders beside the data, in small letters."""
_WEB: Final = ("http://", "https://")


def open_sources(
    texts: Sequence[str],
    id_project: str,
    db: Database,
    *,
    allowed: Iterable[str] = (),
    picture_hosts: Iterable[str] = (),
) -> CheckedSource:
    """The source that the texts name together. Raises BadReport for a text that names none.

    `allowed` are the Python functions that may be called (3), `picture_hosts` further hosts that pictures may be on.
    """
    functions = frozenset(allowed)
    found: list[_Place] = []
    for text in texts:
        address = with_project(parse_source(text), id_project)
        match address.place:
            case "folder":
                found.append(_Folder(Path(address.where)))
            case "url":
                found.append(_Url(address.where))
            case "table":
                found.append(_Table(db, address))
            case "python":
                found.append(_Function(address.where, id_project, is_allowed=text in functions))
    return CheckedSource(found, frozenset(picture_hosts))


def check_places(texts: Sequence[str]) -> None:
    """Raises BadReport for folders, files and functions that are not there: it needs no database, and makes none."""
    places: list[_Place] = []
    for address in map(parse_source, texts):
        if address.place == "folder" and not address.needs_project:
            places.append(_Folder(Path(address.where)))
        elif address.place == "python":
            places.append(_Function(address.where, "", is_allowed=True))
    CheckedSource(places, frozenset()).check()


class _Place(Source):
    def check(self) -> None:
        """Raises SourceError for what is known to be wrong already (1)."""


class CheckedSource(_Place):
    """Several places as one source."""

    def __init__(self, places: Sequence[_Place], picture_hosts: frozenset[str]) -> None:
        self._places = places
        self._hosts = picture_hosts

    def check(self) -> None:
        for place in self._places:
            try:
                place.check()
            except SourceError as error:
                raise BadReport([f"source: {error}"]) from error

    def datasets(self) -> Sequence[Dataset]:
        found = [one for place in self._places for one in place.datasets()]
        if len(found) > MOST_SHEETS:
            raise BadData(f"The source has {len(found)} datasets; a report has {MOST_SHEETS} at most.")
        names = distinct_names(one.name for one in found)
        return [replace(one, name=name) for name, one in zip(names, found, strict=True)]

    def picture(self, name: str) -> bytes:
        if name.startswith(_WEB) and urlsplit(name).hostname in self._hosts:
            return download(name, PICTURE_BYTES)
        last: SourceError = SourceMissing(f"{name}: no source has pictures")
        for place in self._places:
            try:
                return place.picture(name)
            except SourceError as error:
                last = error
        raise last


# ── a folder, or a file ──────────────────────────────────────────────────────────────────────────


class _Folder(_Place):
    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self) -> None:
        if not self._files():
            raise SourceMissing(f"{self._path} has no file that ends with {', '.join(FILE_ENDINGS)}")

    def _files(self) -> list[Path]:
        try:
            if self._path.is_file():
                if self._path.suffix.lower() not in FILE_ENDINGS:
                    raise BadData(
                        f"{self._path} is no CSV or JSON: its name ends with none of {', '.join(FILE_ENDINGS)}"
                    )
                return [self._path]
            found = [path for path in self._path.iterdir() if path.suffix.lower() in FILE_ENDINGS and path.is_file()]
        except (FileNotFoundError, NotADirectoryError) as error:
            raise SourceMissing(f"{self._path}: there is no such folder or file on this machine") from error
        except PermissionError as error:
            raise SourceRefused(f"{self._path} may not be read by this user") from error
        return sorted(path for path in found if not path.name.startswith("."))

    def datasets(self) -> Sequence[Dataset]:
        return [dataset for path in self._files() for dataset in _file_datasets(path)]

    def picture(self, name: str) -> bytes:
        root = (self._path if self._path.is_dir() else self._path.parent).resolve()
        if name.startswith(_WEB):
            raise SourceRefused(f"{shown_url(name)} is on another host than the source: name it in picture_hosts")
        wanted = name.replace("\\", "/")
        for folder in ("", *self._picture_folders(root)):
            try:
                path = (root / folder / wanted).resolve()
                if path.is_relative_to(root) and path.is_file():
                    return _read(path, PICTURE_BYTES)
            except (OSError, ValueError):  # a name that no file can have
                continue
        raise SourceMissing(f"{name} is not in the folder")

    def _picture_folders(self, root: Path) -> list[str]:
        try:
            found = [one.name for one in root.iterdir() if one.name.casefold() in _PICTURE_FOLDERS and one.is_dir()]
        except OSError:
            return []
        return sorted(found)


def _file_datasets(path: Path) -> list[Dataset]:
    ending = path.suffix.lower()
    if ending in (".jsonl", ".ndjson"):
        return [Dataset(path.stem, lambda: _guarded(path, json_lines(path)))]
    if ending != ".json":
        return [Dataset(path.stem, lambda: _guarded(path, csv_rows(path)), lambda: csv_header(path))]

    def again(place: int) -> list[Row]:
        return json_datasets(path.stem, _read(path, JSON_BYTES), path.name)[place][1]

    names = [name for name, _ in json_datasets(path.stem, _read(path, JSON_BYTES), path.name)]
    return [Dataset(name, lambda place=place: again(place)) for place, name in enumerate(names)]  # type: ignore[misc]


def _guarded(path: Path, rows: Iterator[Row]) -> Iterator[Row]:
    try:
        yield from rows
    except FileNotFoundError as error:
        raise SourceMissing(f"{path} is gone") from error
    except PermissionError as error:
        raise SourceRefused(f"{path} may not be read by this user") from error


def _read(path: Path, limit_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(limit_bytes + 1)
    except PermissionError as error:
        raise SourceRefused(f"{path} may not be read by this user") from error
    except FileNotFoundError as error:
        raise SourceMissing(f"{path} is gone") from error
    if len(data) > limit_bytes:
        raise BadData(f"{path.name} has more than {limit_bytes // 1024**2} MB")
    return data


# ── a URL ────────────────────────────────────────────────────────────────────────────────────────


class _Url(_Place):
    def __init__(self, url: str) -> None:
        self._url = url

    def datasets(self) -> Sequence[Dataset]:
        parts = urlsplit(self._url)
        name = parts.path.rstrip("/").rpartition("/")[2].removesuffix(".json") or str(parts.hostname)
        found = json_datasets(name, download(self._url, JSON_BYTES, token=source_token()))
        return [Dataset(name, lambda rows=rows: rows) for name, rows in found]  # type: ignore[misc]

    def picture(self, name: str) -> bytes:
        url = urljoin(self._url, name)
        if not url.startswith(_WEB) or not same_host(url, self._url):
            raise SourceRefused(f"{shown_url(url)} is on another host than the source: name it in picture_hosts")
        return download(url, PICTURE_BYTES, token=source_token())


# ── a table ──────────────────────────────────────────────────────────────────────────────────────


class _Table(_Place):
    def __init__(self, db: Database, address: SourceAddress) -> None:
        self._db = db
        self._address = address

    def check(self) -> None:
        if not self._address.target:
            self._describe(self._db)

    def _describe(self, db: Database) -> None:
        name = self._address.where
        try:
            db.execute("DescribeTable", {"TableName": name})
        except ResourceNotFoundException as error:
            raise SourceMissing(f"{db.name} has no table {name}") from error

    def datasets(self) -> Sequence[Dataset]:
        return [Dataset(self._address.where, self._rows)]

    def _rows(self) -> Iterator[Row]:
        if not self._address.target:
            yield from self._scan(self._db)
            return
        with connect(self._address.target) as db:
            yield from self._scan(db)

    def _scan(self, db: Database) -> Iterator[Row]:
        self._describe(db)
        return (flat_row(plain(item)) for item in db.table(self._address.where).scan())

    def picture(self, name: str) -> bytes:
        raise SourceMissing(f"{name}: a table has no pictures; name the host of their URLs in picture_hosts")


# ── a Python function ────────────────────────────────────────────────────────────────────────────


class _Function(_Place):
    """It is called with the project's name, or with nothing if it has no parameter.

    It gives rows (mappings), or a mapping of names to rows.
    """

    def __init__(self, place: str, id_project: str, *, is_allowed: bool) -> None:
        self._place = place
        self._id_project = id_project
        self._is_allowed = is_allowed

    def check(self) -> None:
        self._function()

    def _function(self) -> Callable[..., Any]:
        if not self._is_allowed:
            raise SourceRefused(
                f"{self._place} is not called by a worker that was not started with it: add --source {self._place}"
            )
        try:
            _, name, found = load_attribute(self._place, what="function", example="reports:orders")
        except PenstockError as error:
            raise SourceMissing(str(error)) from error
        if not callable(found):
            raise SourceMissing(f"{self._place} is no function: the module has no {name} that can be called")
        return found  # type: ignore[no-any-return]

    def datasets(self) -> Sequence[Dataset]:
        function = self._function()
        given = self._call(function)
        if isinstance(given, Mapping):
            return [Dataset(str(name), lambda rows=rows: self._rows(rows)) for name, rows in given.items()]  # type: ignore[misc]
        # A generator can be read once: another attempt calls the function again.
        return [Dataset(self._place.rpartition(":")[2], lambda: self._rows(given))]

    def _call(self, function: Callable[..., Any]) -> Any:
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):
            parameters = {}  # type: ignore[assignment]
        return _reached(self._place, lambda: function(self._id_project) if parameters else function())

    def _rows(self, rows: Any) -> Iterator[Row]:
        if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
            raise BadData(f"{self._place} gives {type(rows).__name__}, not rows: a list or generator of mappings")
        found = iter(rows)
        end = object()
        while (row := _reached(self._place, lambda: next(found, end))) is not end:
            yield flat_row(_mapping(row))

    def picture(self, name: str) -> bytes:
        return _Folder(Path.cwd()).picture(name)  # rows may be strangers': no name leads elsewhere (2)


def _mapping(row: Any) -> Any:
    """Also of what is nearly one: a named tuple, a dataclass, a row of sqlite3."""
    if isinstance(row, Mapping):
        return plain(row)
    for name in ("_asdict", "model_dump", "to_dict"):
        if callable(getattr(row, name, None)):
            return plain(getattr(row, name)())
    if callable(getattr(row, "keys", None)):
        return plain({name: row[name] for name in row.keys()})  # noqa: SIM118 - it is no mapping
    if hasattr(row, "__dataclass_fields__"):
        return plain({name: getattr(row, name) for name in row.__dataclass_fields__})
    return row


def _reached(place: str, call: Callable[[], Any]) -> Any:
    """What the call gives. An error that a connection caused is SourceUnreachable, whatever library raised it."""
    try:
        return call()
    except PenstockError:
        raise
    except Exception as error:
        seen: set[int] = set()
        now: BaseException | None = error
        while now is not None and id(now) not in seen:
            seen.add(id(now))
            if isinstance(now, ConnectionError | TimeoutError | socket.gaierror):
                raise SourceUnreachable(f"{place}: {type(error).__name__}: {error}") from error
            now = now.__cause__ or now.__context__
        raise SourceError(f"{place} raised {type(error).__name__}: {error}") from error
