"""The optional parts of an installation: what needs a library of an extra names it when it is missing.

with extra("web", "The dashboard"):
    import jinja2

ExtraMissing: The dashboard needs jinja2: pip install 'penstock[web]'
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from penstock.errors import PenstockError


class ExtraMissing(PenstockError, ImportError):
    """A library that this part stands on is not installed; `install` is the command that installs it."""

    def __init__(self, what: str, library: str, install: str) -> None:
        super().__init__(f"{what} needs {library}: {install}")
        self.library = library
        self.install = install


@contextmanager
def extra(name: str, what: str, *, install: str | None = None) -> Iterator[None]:
    """Imports of libraries go inside. Raises ExtraMissing; `install` is the command for what no extra has."""
    try:
        yield
    except ExtraMissing as error:  # of an extra that this one includes
        raise ExtraMissing(what, error.library, install or _command(name)) from error
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library in ("", "penstock"):
            raise
        raise ExtraMissing(what, library, install or _command(name)) from error


def require(*modules: str, extra: str, what: str) -> None:
    """Raises ExtraMissing for the first module that is not installed; imports none of them."""
    for module in missing(*modules):
        raise ExtraMissing(what, module, _command(extra))


def missing(*modules: str) -> list[str]:
    """Those of the modules that are not installed; imports none of them."""
    return [name for name in modules if not _is_installed(name)]


def _is_installed(module: str) -> bool:
    if module in sys.modules:
        return sys.modules[module] is not None  # None: somebody has forbidden its import
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _command(name: str) -> str:
    return f"pip install 'penstock[{name}]'"
