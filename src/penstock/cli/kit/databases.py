"""Opening the target of --db: a command that only looks makes no file, and writes into none that is no database."""

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


def absent_file(may_create: bool, *, dry_run: bool) -> Absent:
    """What becomes of a missing file where a command may make a table; a dry run makes nothing."""
    return ("empty" if dry_run else "made") if may_create else "refused"


@contextmanager
def open_database(
    target: str, absent: Absent = "refused", *, maker: str = "penstock tables apply"
) -> Iterator[Database]:
    """The database. A command that only looks, or that needs a table, makes no file."""
    file = missing_file(target)
    if absent == "made":
        file = None
    if file is not None and absent == "refused":
        raise PenstockError(f"{file}: there is no such database. Check the name; `{maker}` makes a new one.")
    with connect(endpoints.MEMORY if file is not None else target) as db:
        yield db


def note_missing_file(target: str) -> None:
    """Says that what is shown is about a database that is yet to be made."""
    file = missing_file(target)
    if file is not None:
        click.echo(f"{file} does not exist yet: compared with an empty database.", err=True)


def missing_file(target: str) -> Path | None:
    """The file of this target if it is not there, or empty. Raises PenstockError for one that is no database."""
    if not is_file_target(target):
        return None
    path = Path(target)
    if not path.exists():
        return path
    if not path.is_file() or Path(f"{target}-wal").exists():
        return None
    with path.open("rb") as file:
        start = file.read(len(_SQLITE))
    if start and start != _SQLITE:
        # SQLite takes a file of a few bytes for an empty one, and writes over it.
        raise PenstockError(f"{target}: this file is not a database. Name another one.")
    return None if start else path


def is_file_target(target: str) -> bool:
    return "://" not in target and target != endpoints.MEMORY


def only_database_file(default: str | None = None) -> str:
    """The one .db file of this folder, for people in a hurry; else `default`."""
    files = sorted(str(path) for path in Path().glob("*.db"))
    if len(files) == 1:
        return files[0]
    if default is not None and (not files or default in files):
        return default
    seen = f" This folder has {', '.join(files)}." if files else ""
    raise click.UsageError(f"Which database? Give --db, or set PENSTOCK_DB.{seen}")
