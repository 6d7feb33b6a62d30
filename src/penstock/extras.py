"""The optional parts of an installation. What a part needs is imported when it is used, and missed by name:

The dashboard needs jinja2: pip install 'penstock[web]'
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from penstock.errors import PenstockError


class ExtraMissing(PenstockError, ImportError):
    """A library that this part stands on is not installed; `install` is the command that installs it."""

    def __init__(self, what: str, library: str, install: str) -> None:
        super().__init__(f"{what} needs {library}: {install}", name=library)
        self.library = library
        self.install = install


def install_command(extra: str) -> str:
    return f"pip install 'penstock[{extra}]'"


def missing(*modules: str) -> list[str]:
    """Those of the modules that are not installed; none of them is imported."""
    return [name for name in modules if not _is_installed(name)]


def _is_installed(module: str) -> bool:
    if module in sys.modules:
        return sys.modules[module] is not None
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it would be in
        return False


def require(*modules: str, extra: str, what: str) -> None:
    """Raises ExtraMissing for the first module that is not installed. It imports none of them."""
    for name in missing(*modules):
        raise ExtraMissing(what, name.partition(".")[0], install_command(extra))


def load(module: str, *, extra: str, what: str, install: str | None = None) -> Any:
    """Imports the module; raises ExtraMissing. `install` is the command for what no extra has."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        library = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != library:
            raise  # it is installed, and something of its own is not
        raise ExtraMissing(what, library, install or install_command(extra)) from error
