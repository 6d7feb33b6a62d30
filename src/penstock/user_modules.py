"""What a user names as `module:attribute` on a command line: an app, a function, an agent."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.errors import PenstockError


class NotAPlace(PenstockError):
    """What was given is not of the form `module:attribute`."""


def import_user_module(name: str) -> ModuleType:
    """Modules of the current folder are found, as `python -m` would. ModuleNotFoundError only for the module itself.

    Raises PenstockError for a module that ends the program.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except SystemExit as error:
        raise PenstockError(
            f"{name} calls sys.exit({error.code!r}) when it is imported. Put that under `if __name__ == '__main__':`."
        ) from error


def load_attribute(place: str, *, what: str, example: str) -> tuple[ModuleType, str, Any]:
    """The module, the attribute's name, and what it is (None where there is none). Raises PenstockError."""
    module_name, colon, attribute = place.partition(":")
    if not colon or not module_name or not attribute:
        raise NotAPlace(f"{place!r} names no {what}: it is MODULE:{what.upper()}, such as {example}.")
    try:
        module = import_user_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            # The module is there, and something that it imports is not.
            raise PenstockError(f"{module_name} cannot be imported:\n{_own_trace(error)}") from error
        where = f"in {Path.cwd()} or among the installed packages"
        raise PenstockError(f"There is no module {module_name} {where}.") from error
    except PenstockError:
        raise  # what it says is enough
    except Exception as error:
        raise PenstockError(f"{module_name} cannot be imported:\n{_own_trace(error)}") from error
    return module, attribute, getattr(module, attribute, None)


def _own_trace(error: Exception) -> str:
    """Where in the user's files it happened, without the way there."""
    trace = traceback.TracebackException.from_exception(error)
    ours = [place for place, frame in enumerate(trace.stack) if frame.filename == __file__]
    theirs = trace.stack[ours[-1] + 1 if ours else 0 :]
    shown = [frame for frame in theirs if "importlib" not in frame.filename]
    return "".join([*traceback.StackSummary.from_list(shown).format(), *trace.format_exception_only()]).rstrip()
