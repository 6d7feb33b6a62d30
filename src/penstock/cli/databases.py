"""Opening the database of a command: one that only looks makes no file, and writes into none that is no database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import click

from penstock.client.database import Database, connect
from penstock.client.transports import endpoints
from penstock.errors import PenstockError

_SQLITE = b"SQLite format 3\0"

Absent = Literal["refused", "made", "empty"]
"""What becomes of a file that does not exist: an error, a new database, or an empty one that is never written."""


def creating(may_create: bool, *, dry_run: bool) -> Absent:
    """What becomes of a missing file where a command may make a table; a dry run makes nothing."""
    return ("empty" if dry_run else "made") if may_create else "refused"


@contextmanager
def opened(url: str, absent: Absent = "refused", *, maker: str = "penstock tables apply") -> Iterator[Database]:
    """The database. A command that only looks, or that needs a table, makes no file."""
    file = _missing_file(url)
    if absent == "made":
        file = None
    if file is not None and absent == "refused":
        raise PenstockError(f"{file}: there is no such database. Check the name; `{maker}` makes a new one.")
    with connect(endpoints.MEMORY if file is not None else url) as db:
        yield db


def note_missing_file(url: str) -> None:
    """Says that what is shown is about a database that is yet to be made."""
    file = _missing_file(url)
    if file is not None:
        click.echo(f"{file} does not exist yet: compared with an empty database.", err=True)


def _missing_file(url: str) -> Path | None:
    """The file of this URL if it is not there, or empty. Raises PenstockError for one that is no database."""
    if "://" in url or url == endpoints.MEMORY:
        return None
    path = Path(url)
    if not path.exists():
        return path
    if not path.is_file() or Path(f"{url}-wal").exists():
        return None
    with path.open("rb") as file:
        start = file.read(len(_SQLITE))
    if start and start != _SQLITE:
        # SQLite takes a file of a few bytes for an empty one, and writes over it.
        raise PenstockError(f"{url}: this file is not a database. Name another one.")
    return None if start else path
