"""DEFINITIONS, as a command is given them, to tables: a system's name, a folder, a file, or `module:attribute`."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.tables.definitions.arguments import raising_line
from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.export_file import ExportError, read_export
from penstock.tables.definitions.problems import DefinitionError, Problem, check
from penstock.tables.definitions.readers.definition_file import is_definition_file, read_definition_file
from penstock.tables.definitions.system_tables import SystemTables
from penstock.user_modules import import_user_module


@dataclass(frozen=True, slots=True)
class Definitions:
    """Tables, where they were found, and the prefix that their names have unless another is given."""

    source: str
    tables: tuple[Table, ...]
    prefix: str = ""
    not_compared: tuple[str, ...] = ()
    """What the source says of its tables that Penstock does not manage."""


class LoadingError(PenstockError):
    """DEFINITIONS that lead to no tables: what was given, why not, and what to do."""

    def __init__(self, given: str, reason: str, next_step: str) -> None:
        super().__init__(given, reason, next_step)
        self.given = given
        self.reason = reason
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.given}: {self.reason}. {self.next_step}."


def load(
    given: str,
    systems: Mapping[str, SystemTables],
    *,
    layout: str = "safe",
    variables: Mapping[str, str] | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Definitions:
    """The tables that DEFINITIONS names. `layout` is for systems that have a compat one, `variables` is the
    environment, which may name a system's tables otherwise, `parameters` are those of a CloudFormation template.

    Raises LoadingError, ExportError or DefinitionError; a folder's problems are told all at once.
    """
    system = systems.get(given)
    if system is not None:
        names = {ours: (variables or {}).get(theirs, "") for ours, theirs in system.variables.items()}
        said = {ours: name for ours, name in names.items() if name}
        tables = _tables_of(given, _call(partial(_import(given, system.module).tables, **said), layout), layout)
        return Definitions(given, tables, system.prefix)
    if given and Path(given).is_dir():
        return Definitions(given, read_folder(Path(given)))
    if given.endswith(".py"):
        name = Path(given).stem
        raise LoadingError(given, "a Python file is given as MODULE:NAME", f"Write, for example, {name}:all")
    if given and is_definition_file(given):
        found = read_definition_file(Path(given), parameters)
        check_unique_names(found.tables)
        return Definitions(given, found.tables, not_compared=found.not_compared)
    if parameters:
        raise LoadingError(given, "it has no parameters", "Give --parameter with a CloudFormation template only")
    module, colon, attribute = given.partition(":")
    if colon and module and attribute:
        return Definitions(given, _tables_of(given, named_object(given, module, attribute), layout))
    raise LoadingError(
        given,
        "it is no system, no folder that exists, and no module:attribute",
        f"Give one of {', '.join(sorted(systems))}, a folder of exported JSON, a template, or for example mytables:all",
    )


def read_folder(folder: Path) -> tuple[Table, ...]:
    """Every `{suffix}.json` of a folder, by name."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise LoadingError(str(folder), "there is no .json file in it", "Run `penstock tables export` first")
    tables: list[Table] = []
    problems: list[Problem] = []
    broken: list[ExportError] = []
    for file in files:
        try:
            tables.append(read_export(file.read_bytes(), str(file), name=file.stem))
        except DefinitionError as error:
            problems += error.problems
        except ExportError as error:
            broken.append(error)
        except OSError as error:
            broken.append(ExportError(str(file), error.strerror or str(error)))
    if len(broken) == 1 and not problems:
        raise broken[0]
    problems += [Problem(_place(one), one.reason, one.next_step) for one in broken]
    if problems:
        raise DefinitionError(problems)
    return tuple(tables)


def _place(error: ExportError) -> str:
    return ":".join(str(one) for one in (error.file, error.line, error.column) if one is not None)


def _import(given: str, module: str) -> Any:
    try:
        return import_user_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise LoadingError(given, f"importing {module} fails: {error}", "Mend its imports") from error
        raise LoadingError(
            given, f"there is no module {module}", "Run the command where it can be imported, or set PYTHONPATH"
        ) from None
    except PenstockError:
        raise
    except Exception as error:
        reason = f"importing {module} fails: {type(error).__name__}: {error}{_at(error)}"
        raise LoadingError(given, reason, "Mend the module") from error


def _at(error: BaseException) -> str:
    line = raising_line(error)
    return f" ({line})" if line else ""


def named_object(given: str, module: str, attribute: str) -> Any:
    """What a module has under a name, dotted or not; `given` is how the user wrote it."""
    found = _import(given, module)
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise LoadingError(given, f"{module} has no {attribute}", "Name a Table, or a list of them") from None
    return found


def _tables_of(given: str, found: Any, layout: str) -> tuple[Table, ...]:
    """A Table or a class of `@penstock.item`, several, a mapping to them, or a function that gives one of these."""
    if _is_model(found):
        found = _call_of_user(given, partial(Table.of, found), layout)
    elif isinstance(found, type):
        reason = f"a Table was expected there, not the class {found.__name__}"
        raise LoadingError(given, reason, "Name a Table, or a list of them")
    elif callable(found) and not isinstance(found, Table):
        found = _call_of_user(given, found, layout)
    elif isinstance(found, Iterator):
        lazy = found
        found = _call_of_user(given, lambda: lazy, layout)
    if isinstance(found, Table):
        found = (found,)
    elif isinstance(found, Mapping):
        found = found.values()
    tables = tuple(found) if isinstance(found, Iterable) and not isinstance(found, str) else ()
    if not tables and isinstance(found, Sized) and len(found) == 0:
        raise LoadingError(given, "there is no Table in it: it is empty", "Name a Table, or a list of them")
    if any(_is_model(one) for one in tables):
        tables = _call_of_user(given, partial(_with_models, tables), layout)
    strangers = [one for one in tables if not isinstance(one, Table)]
    if not tables or strangers:
        kind = type(strangers[0] if strangers else found).__name__
        raise LoadingError(given, f"a Table was expected there, not {kind}", "Name a Table, or a list of them")
    for table in tables:
        check(table, given)  # `replace` has not
    check_unique_names(tables)
    return tables


def _is_model(found: object) -> bool:
    """Whether it is a class that `@penstock.item` made."""
    return isinstance(found, type) and hasattr(found, "__item__")


def _with_models(found: tuple[Any, ...]) -> tuple[Any, ...]:
    """With a table in the place of classes: one for all classes that name it."""
    classes: dict[str, list[type]] = {}
    for one in found:
        if _is_model(one):
            classes.setdefault(one.__item__.table, []).append(one)
    return (*(one for one in found if not _is_model(one)), *(Table.of(*several) for several in classes.values()))


def check_unique_names(tables: Iterable[Table]) -> None:
    """Raises DefinitionError if two definitions have the same name."""
    counts = Counter(table.name for table in tables)
    problems = [
        Problem(f"table {name!r}", f"it is defined {times} times", "Keep one")
        for name, times in counts.items()
        if times > 1
    ]
    if problems:
        raise DefinitionError(problems)


def _call(function: Callable[..., Any], layout: str) -> Any:
    """With the layout where the function has one."""
    has_layout = "layout" in inspect.signature(function).parameters
    return function(layout=layout) if has_layout else function()


def _call_of_user(given: str, function: Callable[..., Any], layout: str) -> Any:
    """The same for a function that may raise anything. What a generator yields is made here too."""
    try:
        found = _call(function, layout)
        return tuple(found) if isinstance(found, Iterator) else found
    except PenstockError:
        raise
    except (Exception, SystemExit) as error:
        raise LoadingError(
            given, f"calling it fails: {type(error).__name__}: {error}{_at(error)}", "Mend the function"
        ) from error
