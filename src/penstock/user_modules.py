"""What a user names: `module:attribute` on a command line (an app, a function, an agent), or a package with tasks."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from penstock.errors import PenstockError

TASK_MODULE: Final = "tasks"
_MOST_FOLDERS: Final = 10_000
"""Of a package that is searched: more than that is no package of code, but a folder of data below one."""


class NotAPlace(PenstockError):
    """What was given is not of the form `module:attribute`."""


def import_user_module(name: str) -> ModuleType:
    """Modules of the current folder are found, as `python -m` would. ModuleNotFoundError only for the module itself.

    Raises PenstockError for a module that ends the program, and for a file instead of a module's name.
    """
    _refuse_file(name)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except SystemExit as error:
        raise PenstockError(
            f"{name} calls sys.exit({error.code!r}) when it is imported. Put that under `if __name__ == '__main__':`."
        ) from error


def _refuse_file(name: str) -> None:
    """`./web/reports.py` is what a shell completes; Python's own error for it speaks of a 'package' argument."""
    file = Path(name)
    if not (os.sep in name or (file.suffix == ".py" and file.is_file())):
        return
    path = Path(os.path.relpath(file.with_suffix("")))
    module, where = ".".join(path.parts), ""
    if path.parts[:1] == ("..",):
        module, where = path.name, f" in {path.parent}, or with PYTHONPATH={path.parent}"
    raise PenstockError(f"{name} is a file; a module has its name with dots: write {module}{where}.")


def load_attribute(place: str, *, what: str, example: str) -> tuple[ModuleType, str, Any]:
    """The module, the attribute's name, and what it is (None where there is none). Raises PenstockError."""
    module_name, colon, attribute = place.partition(":")
    if not colon or not module_name or not attribute:
        raise NotAPlace(f"{place!r} names no {what}: it is MODULE:{what.upper()}, such as {example}.")
    module = _import_named(module_name)
    return module, attribute, getattr(module, attribute, None)


def import_task_modules(package: str) -> list[str]:
    """Imports every module that is named `tasks` in the package and the packages below it; their names, in order.

    Raises PenstockError, with the module's name, for one that cannot be imported, and if there is none.
    """
    folders = [Path(folder) for folder in getattr(_import_named(package), "__path__", ())]
    if not folders:
        raise PenstockError(f"{package} is a module, not a package: name the package above its {TASK_MODULE}.py.")
    names = sorted({name for folder in folders for name in _task_modules(package, folder)})
    if not names:
        raise PenstockError(f"There is no module named {TASK_MODULE} in {package} or the packages below it.")
    for name in names:
        _import_named(name)
    return names


def _task_modules(package: str, top: Path) -> Iterator[str]:
    """By their files. What no import could reach, such as `.git` or `data-2026`, is not searched."""
    for count, (folder, below, files) in enumerate(os.walk(top)):
        if count >= _MOST_FOLDERS:
            raise PenstockError(f"{top} has more than {_MOST_FOLDERS:,} folders: name a package further down.")
        below[:] = [name for name in below if name.isidentifier() and name != "__pycache__"]
        parts = (package, *Path(folder).relative_to(top).parts)
        if f"{TASK_MODULE}.py" in files:
            yield ".".join((*parts, TASK_MODULE))
        elif parts[-1] == TASK_MODULE and "__init__.py" in files:
            yield ".".join(parts)


def _import_named(name: str) -> ModuleType:
    """Raises PenstockError: that there is no such module, or where in it the import has failed."""
    try:
        return import_user_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            # The module is there, and something that it imports is not.
            raise PenstockError(f"{name} cannot be imported:\n{_own_trace(error)}") from error
        where = f"in {Path.cwd()} or among the installed packages"
        raise PenstockError(f"There is no module {name} {where}.") from error
    except PenstockError:
        raise  # what it says is enough
    except Exception as error:
        raise PenstockError(f"{name} cannot be imported:\n{_own_trace(error)}") from error


def _own_trace(error: Exception) -> str:
    """Where in the user's files it happened, without the way there."""
    trace = traceback.TracebackException.from_exception(error)
    ours = [place for place, frame in enumerate(trace.stack) if frame.filename == __file__]
    theirs = trace.stack[ours[-1] + 1 if ours else 0 :]
    shown = [frame for frame in theirs if "importlib" not in frame.filename]
    return "".join([*traceback.StackSummary.from_list(shown).format(), *trace.format_exception_only()]).rstrip()
