"""The systems that are installed: found by entry point, imported only when something of theirs is needed.

A package registers a system in its pyproject.toml:

    [project.entry-points."penstock.systems"]
    excel-reports = "penstock.systems.excel_reports:SYSTEM"

1. The entry point's object is a `System`. It names modules and imports none of them: reading the registry is cheap.
2. An entry point that cannot be imported, or that is no System, is left out with a warning. It never stops a command
   that does not need it.
3. Its values are named tuples: a data class is compiled when it is imported, which would be a tenth of `--help`.
4. Nothing below imports a system: commands, dashboard and tests find systems here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from penstock.entry_points import entry_points
from penstock.errors import PenstockError
from penstock.extras import ExtraMissing, missing
from penstock.tables.definitions.system_tables import SystemTables

if TYPE_CHECKING:  # these rooms take long to import, and most commands need few of them
    from pathlib import Path

    from penstock.client.database import Database
    from penstock.files import Files
    from penstock.jobs.sources import JobSource, JobSourceType, TableDescription

GROUP: Final = "penstock.systems"
JOBS_TABLES: Final = {"jobs": SystemTables("penstock.jobs.layouts.tables")}
"""The one name of tables that needs no system: the table of jobs itself."""

Progress = Callable[[float, str], None]
"""How far a demo is, from 0 to 1, and what it does."""


class Point(Protocol):
    """An entry point: ours, or importlib.metadata's."""

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> str: ...
    def load(self) -> Any: ...


class SystemUnusable(PenstockError):
    """A part that a system names cannot be imported."""


class Commands(NamedTuple):
    """A group of commands: `penstock NAME …`. `group` is MODULE:ATTRIBUTE of a click group."""

    name: str
    summary: str
    group: str


class JobTables(NamedTuple):
    """The tables that a JobSourceType is asked about: it is imported when a database has one of them."""

    source: str
    """The JobSourceType, MODULE:ATTRIBUTE."""
    keys: tuple[tuple[str, ...], ...]
    """Keys that such a table may have: of each the hash key, and the sort key if there is one."""
    name_part: str = ""
    """What its name has, if that is known."""

    def open(self, db: Database, table: TableDescription, files: Files | None) -> JobSource | None:
        """As a JobSourceType does."""
        if table.keys not in self.keys or self.name_part not in table.name:
            return None
        source_type = _source_type(self.source)
        return None if source_type is None else source_type(db, table, files)


class System(NamedTuple):
    """What a system brings. Parts are named MODULE:ATTRIBUTE, and are imported when they are used."""

    name: str
    title: str
    commands: Commands | None = None
    tables: SystemTables | None = None
    demo: str = ""
    """A function `demo(db, folder, progress) -> facts` that does something complete."""
    jobs: tuple[str | JobTables, ...] = ()
    """The system's JobSourceTypes: how its jobs are found and read in a database. One that is given by its name alone
    is imported by every command that reads jobs."""
    libraries: tuple[str, ...] = ()
    """Modules that it needs beyond Penstock's own."""
    extra: str = ""
    """What installs those: `pip install 'penstock[extra]'`."""

    @property
    def missing_libraries(self) -> list[str]:
        return missing(*self.libraries)

    def run_demo(self, db: Database, folder: Path, progress: Progress) -> dict[str, object]:
        facts: dict[str, object] = load_part(self.demo)(db, folder, progress)
        return facts


def load_part(name: str) -> Any:
    """The object that MODULE:ATTRIBUTE names. Raises SystemUnusable, ExtraMissing."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ExtraMissing:  # which says what to install
        raise
    except (ImportError, AttributeError) as error:
        raise SystemUnusable(f"{name} cannot be imported: {error}. Reinstall the package that registers it.") from error


@cache
def systems() -> Mapping[str, System]:
    """The installed systems by name, sorted."""
    return load_systems(entry_points(group=GROUP))


def load_systems(points: Any) -> dict[str, System]:
    """The systems of these entry points; of two with one name, the first."""
    found: dict[str, System] = {}
    for point in points:
        system = _load(point)
        if system is not None:
            found.setdefault(system.name, system)
    return dict(sorted(found.items()))


def _load(point: Point) -> System | None:
    try:
        system = point.load()
    except Exception as error:  # another package's module may raise anything while it is imported (2)
        _warn("The system %s (%s) is left out: %s: %s", point.name, point.value, type(error).__name__, error)
        return None
    if not isinstance(system, System):
        _warn("The system %s (%s) is left out: it is no penstock.registry.System", point.name, point.value)
        return None
    return system


def system_tables() -> dict[str, SystemTables]:
    """What `penstock tables` knows by name: the systems' tables, and the table of jobs."""
    found = {name: system.tables for name, system in systems().items() if system.tables is not None}
    return dict(sorted({**found, **JOBS_TABLES}.items()))


def job_source_types() -> tuple[JobSourceType, ...]:
    """How the jobs of every system are found; one that cannot be imported is left out with a warning."""
    parts = [part for system in systems().values() for part in system.jobs]
    found: list[JobSourceType | None] = [
        part.open if isinstance(part, JobTables) else _source_type(part) for part in parts
    ]
    return tuple(one for one in found if one is not None)


def _source_type(name: str) -> JobSourceType | None:
    try:
        found: JobSourceType = load_part(name)
    except ExtraMissing as error:  # who has not installed the system's libraries has none of its jobs
        _note("The jobs of %s are not shown: %s", name, error)
    except PenstockError as error:
        _warn("The jobs of %s are not shown: %s", name, error)
    else:
        return found
    return None


def _warn(message: str, *facts: object) -> None:
    import logging  # by the first that has something to say: a help page does without

    logging.getLogger(__name__).warning(message, *facts)


def _note(message: str, *facts: object) -> None:
    import logging

    logging.getLogger(__name__).info(message, *facts)
