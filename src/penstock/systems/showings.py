"""The showing of all five systems, one after the other, on one database: what `penstock demo` runs.

Each system has `demo(db, folder, progress)`, which does something complete and gives the facts of it. What fails stops
no other; what needs libraries that are not installed says which.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal

from penstock.client.database import Database
from penstock.extras import missing

Progress = Callable[[float, str], None]
"""How far a system is, from 0 to 1, and what it does."""


@dataclass(frozen=True, slots=True)
class Showing:
    name: str
    title: str
    needs: tuple[str, ...] = ()
    extra: str = ""
    """What has those: `pip install 'penstock[extra]'`."""

    @property
    def missing(self) -> list[str]:
        return missing(*self.needs)

    def run(self, db: Database, folder: Path, progress: Progress) -> dict[str, object]:
        module: Any = import_module(f"penstock.systems.{self.name}.demo")
        facts: dict[str, object] = module.demo(db, folder, progress)
        return facts


def files_beside(db: Database, folder: Path) -> Path:
    """Where `penstock up` looks for the files of a database's jobs; under `folder` for a database that is no file."""
    return Path(f"{db.name}.files") if Path(db.name).is_file() else folder / "files"


ALL: Final = (
    Showing("excel_reports", "Excel reports", ("fastapi", "openpyxl"), "systems"),
    Showing("construction_expenses", "Construction expenses"),
    Showing("security_assistant", "Security assistant", ("openpyxl", "pypdf"), "systems"),
    Showing("account_records", "Account records"),
    Showing("delphi", "Delphi", ("numpy", "sklearn", "umap", "evoc", "matplotlib"), "delphi"),
)


@dataclass(frozen=True, slots=True)
class Shown:
    """What became of one."""

    showing: Showing
    outcome: Literal["done", "failed", "not run"]
    seconds: float = 0.0
    facts: Mapping[str, object] = field(default_factory=dict)
    reason: str = ""


def show_all(
    db: Database, folder: Path, tell: Callable[[Showing, float, str], None], showings: Sequence[Showing] = ALL
) -> Iterator[Shown]:
    """Runs them in turn, each in a folder of its own under `folder`."""
    for one in showings:
        yield _shown(one, db, folder / one.name, tell)


def _shown(one: Showing, db: Database, folder: Path, tell: Callable[[Showing, float, str], None]) -> Shown:
    if one.missing:
        reason = f"{', '.join(one.missing)} not installed: pip install 'penstock[{one.extra}]'"
        return Shown(one, "not run", reason=reason)
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    try:
        facts = one.run(db, folder, lambda part, text: tell(one, part, text))
    except Exception as error:  # the others are shown all the same, and the end says it
        return Shown(one, "failed", time.monotonic() - began, reason=f"{type(error).__name__}: {error}")
    if not any(folder.iterdir()):
        folder.rmdir()  # all that it made is in the database, and beside it
    return Shown(one, "done", time.monotonic() - began, facts)
