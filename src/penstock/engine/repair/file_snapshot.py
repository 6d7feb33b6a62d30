"""A database file at one moment, with every row of it that can be read.

1. The file is not changed, and may be in use: all is read inside one read transaction.
2. Where SQLite finds nothing wrong with the pages, SQLite reads them. Where it does, all are copied as they are, with
   the log's, to a folder for temporary files; there SQLite reads the tables that are sound, and the others are read
   page by page (sqlite_pages.py).
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import TracebackType

from penstock.engine.repair.sqlite_pages import Lost, Row, Trees
from penstock.engine.storage.file_copy import Progress, copy_pages, open_to_look
from penstock.engine.storage.file_watch import uri_of
from penstock.engine.storage.sidecar_files import make_new
from penstock.errors import StorageError

_MOST_FAULTS = 20
"""Of SQLite's own findings: they are for the curious, what they mean is told by table."""


class Snapshot:
    """Use it with `with`. Raises StorageError where not even the first page can be read."""

    def __init__(self, path: str, progress: Progress | None = None) -> None:
        self.path = path
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._trees: Trees | None = None
        self._damaged: dict[str, bool] = {}
        self._db = open_to_look(path)
        try:
            # A column that should hold bytes may have become anything.
            self._db.text_factory = _lenient
            self._db.execute("BEGIN")
            self.faults = self._quick_check()
            if self.faults:
                self._trees = self._copied(progress)
        except BaseException:
            self.close()
            raise

    @property
    def pages_are_sound(self) -> bool:
        return not self.faults

    def names(self) -> list[str]:
        """The SQL tables that can be found."""
        if self._trees is not None:
            return self._trees.names()
        return [name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]

    def lost_names(self) -> list[Lost]:
        """Where the list of the SQL tables itself is damaged."""
        return [] if self._trees is None else self._trees.lost_schema

    def rows(self, name: str) -> Iterator[Row | Lost]:
        """Every row of an SQL table, and what could not be read, in the order of their keys."""
        if self._trees is not None and self.is_damaged(name):
            return self._trees.rows(name)
        rows = self._db.execute(f'SELECT * FROM "{name}"')  # noqa: S608
        return rows if self._trees is None else self._trees.check_rows(name, rows)

    def is_damaged(self, name: str) -> bool:
        """Whether SQLite finds something wrong with the pages of an SQL table."""
        if self._trees is None:
            return False
        if name not in self._damaged:
            try:
                found = self._db.execute(f'PRAGMA quick_check("{name}")').fetchall()
                self._damaged[name] = found != [("ok",)] or self._is_disordered(name)
            except sqlite3.Error:
                self._damaged[name] = True
        return self._damaged[name]

    def orphans(self) -> Iterator[Row]:
        """Rows that no table leads to any more, because a page above them is lost."""
        return iter(()) if self._trees is None else self._trees.orphans()

    def bytes(self) -> int:
        size: int = self._db.execute("PRAGMA page_size").fetchone()[0]
        count: int = self._db.execute("PRAGMA page_count").fetchone()[0]
        return size * count

    def close(self) -> None:
        if self._trees is not None:
            self._trees.close()
        self._db.close()
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _quick_check(self) -> tuple[str, ...]:
        """What SQLite finds wrong."""
        try:
            found = [str(row[0]) for row in self._db.execute(f"PRAGMA quick_check({_MOST_FAULTS})")]
        except sqlite3.Error as error:
            return (str(error),)
        lines = [line for text in found for line in text.splitlines() if not line.startswith("***")]
        if lines == ["ok"]:
            lines = [f"{name}: its rows are not in order" for name in self.names() if self._is_disordered(name)]
        return tuple(lines[:_MOST_FAULTS])

    def _is_disordered(self, name: str) -> bool:
        """Whether a table's keys do not rise: SQLite does not look, and a page may be another table's."""
        (text,) = self._db.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        if "(key BLOB PRIMARY KEY" not in text:
            return False
        keys = (key for (key,) in self._db.execute(f'SELECT key FROM "{name}"'))  # noqa: S608
        return any(
            not isinstance(one, bytes) or not isinstance(two, bytes) or one >= two for one, two in pairwise(keys)
        )

    def _copied(self, progress: Progress | None) -> Trees:
        self._db.execute("ROLLBACK")
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-repair-")
        part = Path(self._folder.name) / "pages"
        try:
            make_new(part)
            copy_pages(self._db, part, progress)
        except (sqlite3.Error, OSError) as error:
            raise StorageError(
                f"{self.path}: its pages could not be copied to {self._folder.name}: {error}. "
                "Name a folder with room for it in TMPDIR."
            ) from error
        self._db.close()
        self._db = sqlite3.connect(uri_of(str(part), "mode=ro&immutable=1"), uri=True, isolation_level=None)
        self._db.execute("PRAGMA writable_schema = ON")  # as in file_copy.py
        self._db.text_factory = _lenient
        return Trees(part)


def _lenient(raw: bytes) -> str:
    return raw.decode(errors="replace")
