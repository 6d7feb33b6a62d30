"""What a user names as `module:attribute` on a command line: an app, a function, an agent."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.errors import PenstockError


class NotAPlace(PenstockError):
    """What was given is not of the form `module:attribute`."""


def import_user_module(name: str) -> ModuleType:
    """Modules of the current folder are found, as `python -m` would. ModuleNotFoundError only for the module itself."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return importlib.import_module(name)


def named(place: str, *, what: str, example: str) -> tuple[ModuleType, str, Any]:
    """The module, the attribute's name, and what it is (None where there is none). Raises PenstockError."""
    module_name, colon, attribute = place.partition(":")
    if not colon or not module_name or not attribute:
        raise NotAPlace(f"{place!r} names no {what}: it is MODULE:{what.upper()}, such as {example}.")
    try:
        module = import_user_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise  # the module is there, and something that it imports is not
        where = f"in {Path.cwd()} or among the installed packages"
        raise PenstockError(f"There is no module {module_name} {where}.") from error
    return module, attribute, getattr(module, attribute, None)
