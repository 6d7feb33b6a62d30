"""Live tables written to a folder as definitions (S1.5–6).

1. Read-only: nothing in the database changes.
2. A file is replaced as a whole or not at all, and never by what could not be read.
3. A missing table, or one that cannot be read, is reported and stops no other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from penstock.client.database import Database
from penstock.errors import PenstockError
from penstock.tables.definitions.definition import Naming, Table, check_names
from penstock.tables.definitions.export_file import SUMMARY_FILE, SummaryRow, export_text, summary_text
from penstock.tables.plan.failures import Failure, WrongState, failure_of
from penstock.tables.plan.survey import NOT_YET, Live, inspect_all

DEFAULT_FOLDER = "infrastructure/schemas"


class FileUnwritable(PenstockError):
    """A file that could not be written: which, and why."""

    def __init__(self, file: Path, reason: str) -> None:
        super().__init__(file, reason)
        self.file = file
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}. Nothing there was overwritten: choose another --out, or make room."


@dataclass(frozen=True, slots=True)
class ExportReport:
    """`written` changed, `unchanged` had the same bytes already; both by file. `missing` are full names."""

    written: tuple[Path, ...]
    unchanged: tuple[Path, ...]
    missing: tuple[str, ...]
    failures: tuple[Failure, ...]
    summary: Path | None
    """None where it was left as it is, because not every table could be read."""

    @property
    def is_whole(self) -> bool:
        return not self.missing and not self.failures


def export(
    db: Database,
    tables: Iterable[Table],
    naming: Naming,
    folder: Path,
    *,
    warm: bool = False,
    dry_run: bool = False,
    policy: str = "",
) -> ExportReport:
    """Writes `{suffix}.json` of every table, and the summary. With `dry_run` it only says what it would write."""
    wanted = {naming.full_name(table.name): table for table in tables}
    check_names(wanted.values(), naming)
    found = {
        name: _whole(name, live)
        for name, live in inspect_all(db, wanted, policy=policy, with_policies=lambda name: "ask").items()
    }
    files = {
        name: (folder / f"{wanted[name].name}.json", _text(wanted[name], live, warm=warm))
        for name, live in found.items()
        if isinstance(live, Live)
    }
    changed = [file for file, text in files.values() if not _has(file, text)]
    failures = tuple(one for one in found.values() if isinstance(one, Failure))
    report = ExportReport(
        written=tuple(changed),
        unchanged=tuple(file for file, _ in files.values() if file not in changed),
        missing=tuple(name for name, live in found.items() if live is None),
        failures=failures,
        summary=None if failures else folder / SUMMARY_FILE,
    )
    if not dry_run:
        for file, text in files.values():
            if file in changed:
                write_whole(file, text)
        if report.summary is not None:
            write_whole(report.summary, _summary(wanted, found, folder))
    return report


def _whole(name: str, live: Live | Failure | None) -> Live | Failure | None:
    """A table that is being made or deleted has no settings to read yet: written down, they would seem to be off."""
    if isinstance(live, Live) and live.facts.status in NOT_YET:
        return failure_of(name, "exporting it", WrongState(live.facts.status))
    return live


def _text(table: Table, live: Live, *, warm: bool) -> str:
    """Under its suffix: the same table of another environment is the same file. What the endpoint does not tell is
    left out of it, for that it is off would be a guess.
    """
    told = live.table.replace(name=table.name, **dict.fromkeys(live.unsupported))
    told = told.replace(resource_policy=told.resource_policy or None)
    return export_text(told, warm=warm)


def _summary(wanted: dict[str, Table], found: dict[str, Live | Failure | None], folder: Path) -> str:
    rows = []
    for name, live in found.items():
        table, file = wanted[name].replace(name=name), f"{wanted[name].name}.json"
        if isinstance(live, Live):
            rows.append(SummaryRow(live.table, live.facts, file))
        else:
            rows.append(SummaryRow(table, None, file if (folder / file).exists() else "-"))
    return summary_text(rows)


def _has(file: Path, text: str) -> bool:
    try:
        return file.read_bytes() == text.encode()
    except OSError:
        return False


def write_whole(file: Path, text: str) -> None:
    """Replaces a file by another of the same name, which is whole before it has that name."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f".{file.name}.{token_hex(6)}")
        # New under that name, and readable by whom the umask allows.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(text.encode())
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(file)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FileUnwritable(file, error.strerror or str(error)) from error
