"""Opens the target of --db. A command that only reads creates no file, and never writes to a file of another kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from penstock.client.database import Database, connect
from penstock.client.transports import endpoints
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.engine.settings import Settings

_SQLITE = b"SQLite format 3\0"

Absent = Literal["refused", "made", "empty"]
"""For a file that does not exist: an error, a new database, or an empty one that is never written to disk."""


def absent_file(may_create: bool, *, dry_run: bool) -> Absent:
    """For a missing file, if the command may create a table; a dry run creates nothing."""
    return ("empty" if dry_run else "made") if may_create else "refused"


@contextmanager
def open_database(
    target: str,
    absent: Absent = "refused",
    *,
    maker: str = "penstock tables apply",
    settings: Settings | None = None,
) -> Iterator[Database]:
    """The database. A command that only reads, or that needs an existing table, creates no file."""
    file = missing_file(target)
    if absent == "made":
        file = None
    if file is not None and absent == "refused":
        raise PenstockError(f"{file}: there is no such database. Check the name; `{maker}` makes a new one.")
    with connect(endpoints.MEMORY if file is not None else target, settings=settings) as db:
        yield db


def note_missing_file(target: str) -> None:
    """Says that the plan is for a database that does not exist yet."""
    file = missing_file(target)
    if file is not None:
        click.echo(f"{file} does not exist yet: compared with an empty database.", err=True)


def missing_file(target: str) -> Path | None:
    """The file of this target if it is missing or empty. Raises PenstockError for a file that is not a database."""
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
    """Raises BadUrl for what looks like an endpoint, and would be a new file."""
    if "://" in target:
        return False
    return endpoints.parse(target) != endpoints.File(endpoints.MEMORY)


def only_database_file(default: str | None = None) -> str:
    """The only .db file of this folder; else `default`."""
    files = sorted(str(path) for path in Path().glob("*.db"))
    if len(files) == 1:
        return files[0]
    if default is not None and (not files or default in files):
        return default
    seen = f" This folder has {', '.join(files)}." if files else ""
    raise click.UsageError(f"Which database? Give --db, or set PENSTOCK_DB.{seen}")
