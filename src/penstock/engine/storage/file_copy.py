"""A copy of a database file while other processes write to it, and a file opened only to look at it.

1. The copy is the file at one moment: SQLite's own backup, page by page, inside one read transaction. Without that
   transaction a backup in steps begins again whenever somebody writes, and on a busy file never ends; in one step it
   could tell no progress and Ctrl-C would wait for its end. VACUUM INTO would give a smaller file for a third more
   processor time (0.28 s against 0.20 s for 145 MB), but cannot say how far it is.
2. Nobody waits for it. While it runs the log is not begun again, so that it grows by what is written meanwhile.
3. It gets its name when it is whole, checked and on the disk; until then it is `NAME.….part`, which every ending but
   kill -9 removes.
4. `open_to_look` writes nothing: no log is made or copied, no format upgraded, and a file on a read-only disk can be
   read. It refuses what is not a database of ours, or of a newer format; a damaged file is opened as long as its first
   page can be read.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from penstock.engine.storage.file_format import APPLICATION_ID, NEWEST, new_file_id, newer_format
from penstock.engine.storage.file_watch import refuse_overwritten, uri_of
from penstock.engine.storage.sidecar_files import beside, make_new
from penstock.errors import StorageError

STEP_PAGES = 1024
"""8 MB: a few milliseconds between two looks at Ctrl-C."""

Progress = Callable[[int, int], None]
"""Told of bytes done and bytes in all."""


class DamagedSource(StorageError):
    """The file is damaged, and so would be its copy."""


@dataclass(frozen=True, slots=True)
class FileCopy:
    source: str
    copy: str
    bytes: int
    tables: int
    seconds: float


def copy_file(source: str, copy: str, *, replace: bool = False, progress: Progress | None = None) -> FileCopy:
    """Copies a database that may be in use. Raises StorageError, and then leaves no copy."""
    began = time.monotonic()
    with closing(open_to_look(source)) as db:
        refuse_place(source, copy, replace=replace)
        with new_file(copy, replace=replace) as part:
            with explain_failed_copy(copy):
                copy_pages(db, part, progress)
                _give_id(part)
            _check(part, source)
            tables = _count_tables(part)
            size = part.stat().st_size
    return FileCopy(source, copy, size, tables, round(time.monotonic() - began, 3))


def refuse_place(source: str, copy: str, *, replace: bool) -> None:
    """Refuses to write where something is that would be lost, or that would spoil the copy."""
    place = Path(copy)
    if place.is_dir():
        raise StorageError(f"{copy}: a folder. Name a file in it.")
    if not place.resolve().parent.is_dir():
        raise StorageError(f"{copy}: its folder does not exist. Make it, or name another one.")
    if place.exists() and place.samefile(source):
        raise StorageError(f"{copy}: this is the source itself. Name another file.")
    for other in beside(copy):
        if other.exists() and not other.samefile(source):
            raise StorageError(
                f"{copy}: {other.name} lies beside it: a process has that database open, or died with it open. "
                "Name another file."
            )
    if place.exists() and not replace:
        raise StorageError(f"{copy}: is there already. Name another file, or give --yes to replace it.")


@contextmanager
def new_file(place: str, *, replace: bool) -> Iterator[Path]:
    """A file beside `place` that takes its name at the end, synced; where the block fails, it is gone."""
    part = Path(f"{place}.{os.getpid()}.{token_hex(4)}.part")
    try:
        make_new(part)  # before SQLite opens it: in a folder of everybody's, a link could lie there
        if replace and Path(place).exists():
            part.chmod(Path(place).stat().st_mode & 0o777)  # whoever shares that file goes on doing so
        yield part
        _sync(part)
        if replace:
            part.replace(place)
        else:
            _name(part, Path(place))
        _sync(part.parent)
    except OSError as error:
        raise StorageError(f"{place}: {error.strerror or error}. Nothing was left there.") from error
    finally:
        for left in (part, *beside(str(part))):
            left.unlink(missing_ok=True)


def _name(part: Path, place: Path) -> None:
    """Gives the file its name unless somebody has taken it meanwhile."""
    try:
        place.hardlink_to(part)
    except FileExistsError:
        raise StorageError(f"{place}: was made by somebody else meanwhile, and is left as it is.") from None
    except OSError:  # a file system without hard links
        part.replace(place)


def copy_pages(db: sqlite3.Connection, part: Path, progress: Progress | None) -> None:
    """Copies what `db` sees at this moment into a new, empty file."""
    page_bytes: int = db.execute("PRAGMA page_size").fetchone()[0]

    def tell(_status: int, remaining: int, total: int) -> None:
        if progress is not None:
            progress((total - remaining) * page_bytes, total * page_bytes)

    db.execute("BEGIN")
    try:
        db.execute("PRAGMA schema_version").fetchone()  # the read that the transaction begins with
        with closing(sqlite3.connect(uri_of(str(part), "mode=rw"), uri=True, isolation_level=None)) as target:
            # The file has no name yet: it needs no journal, and one sync at the end.
            target.execute("PRAGMA journal_mode = OFF")
            target.execute("PRAGMA synchronous = OFF")
            db.backup(target, pages=STEP_PAGES, progress=tell)
    finally:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")


def _give_id(part: Path) -> None:
    """The copy is a file of its own: where it is put in the source's place, whoever has that open can tell."""
    with closing(sqlite3.connect(uri_of(str(part), "mode=rw"), uri=True, isolation_level=None)) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")  # its log then needs no memory that processes share
        db.execute("PRAGMA synchronous = OFF")
        db.execute("INSERT OR REPLACE INTO meta VALUES ('file', ?)", (new_file_id(),))


@contextmanager
def explain_failed_copy(copy: str) -> Iterator[None]:
    """Errors of SQLite's become ours, about a new file."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        no_room = "full" in text or "I/O" in text
        advice = " Make room there, or name a file on another disk." if no_room else ""
        raise StorageError(f"{copy}: {text}.{advice} Nothing was left there.") from error


def _check(part: Path, source: str) -> None:
    """Looks at every page of the copy. One that is damaged is not kept: it would be taken for a good one."""
    with closing(sqlite3.connect(uri_of(str(part), "mode=ro&immutable=1"), uri=True)) as db:
        try:
            found = [row[0] for row in db.execute("PRAGMA quick_check(1)")]
        except sqlite3.Error as error:
            found = [str(error)]
    if found != ["ok"]:
        raise DamagedSource(
            f"{source}: the file is damaged ({found[0]}), and so would be its copy. "
            f"`penstock repair {source}` says what is, and with --into saves the rest."
        )


def _count_tables(part: Path) -> int:
    with closing(sqlite3.connect(uri_of(str(part), "mode=ro&immutable=1"), uri=True)) as db:
        found: int = db.execute("SELECT count(*) FROM tables").fetchone()[0]
        return found


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # Windows opens no folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ── a file that is only looked at ──────────────────────────────────────────────────────────────────


WAIT_SECONDS = 30.0
"""How long a look waits where a process is just recovering the log."""


def open_to_look(path: str) -> sqlite3.Connection:
    """A connection in autocommit that only reads. Raises StorageError."""
    _refuse_no_file(path)
    refuse_overwritten(path)
    try:
        db = _connect(path)
    except sqlite3.Error as error:
        raise StorageError(f"{path}: {error}. It is not an SQLite file, or its first page is lost.") from error
    try:
        _refuse_foreign(path, db)
    except BaseException:
        db.close()
        raise
    return db


def _refuse_no_file(path: str) -> None:
    if "://" in path:
        raise StorageError(f"{path}: not a file. For a database behind a URL, see `penstock tables dump --help`.")
    if not Path(path).is_file():
        raise StorageError(f"{path}: there is no such file. Check the name.")
    if not os.access(path, os.R_OK):
        raise StorageError(f"{path}: may not be read by this user. Change its permissions.")


def _connect(path: str) -> sqlite3.Connection:
    """The first way of opening that works.

    A file without a log is opened as if to write, because then SQLite takes away what it makes beside the file. Where a
    log is, that would copy it: a file that may be damaged is left as it lies. A read-only disk lets nothing be made.
    """
    log = beside(path)[0]
    has_log = log.exists() and log.stat().st_size > 0
    ways = ("mode=ro",) if has_log else ("mode=rw", "mode=ro", "mode=ro&immutable=1")
    for way in ways[:-1]:
        try:
            return _try_to_connect(path, way)
        except sqlite3.OperationalError:
            continue
    return _try_to_connect(path, ways[-1])


def _try_to_connect(path: str, way: str) -> sqlite3.Connection:
    db = sqlite3.connect(uri_of(path, way), uri=True, timeout=WAIT_SECONDS, isolation_level=None)
    try:
        db.execute("PRAGMA query_only = ON")
        db.execute("PRAGMA temp_store = MEMORY")
        # Otherwise SQLite does not look at a file at all whose end is missing.
        db.execute("PRAGMA writable_schema = ON")
        db.execute("PRAGMA schema_version").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def _refuse_foreign(path: str, db: sqlite3.Connection) -> None:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise StorageError(f"{path}: not a database of Penstock's. Name another file.")
    if version > NEWEST:
        raise newer_format(path, version)
