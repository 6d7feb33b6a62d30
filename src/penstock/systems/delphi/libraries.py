"""The libraries of the `delphi` extra: imported when a run needs them, never when a command starts.

Results must be the same for the same seed, whatever the machine: `one_thread` keeps the libraries' sums in one order.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from penstock.errors import PenstockError

EXTRA: Final = "pip install 'penstock[delphi]'"
_INSTALLS: Final = {"sentence_transformers": "pip install sentence-transformers"}


class LibraryMissing(PenstockError, ImportError):
    """A library that this part of Delphi stands on is not installed; `install` is the command that gets it."""

    def __init__(self, library: str, install: str) -> None:
        super().__init__(f"Delphi needs {library}, which is not installed here. Install it: {install}")
        self.library = library
        self.install = install


def library(name: str) -> Any:
    """The module; raises LibraryMissing."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        wanted = name.partition(".")[0]
        if (error.name or "").partition(".")[0] != wanted:
            raise  # it is there, and something of its own is not
        raise LibraryMissing(wanted, _INSTALLS.get(wanted, EXTRA)) from error


def check_installed(*further: str) -> None:
    """Raises LibraryMissing unless a run could begin: before anything is read or written."""
    for name in ("numpy", "scipy", "sklearn", "umap", "matplotlib", *further):
        if (name not in sys.modules and find_spec(name) is None) or sys.modules.get(name, sys) is None:
            raise LibraryMissing(name, _INSTALLS.get(name, EXTRA))


@contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra and compiled loops run in one thread here: a sum in another order is another sum."""
    numba = library("numba")
    threads = numba.get_num_threads()
    with library("threadpoolctl").threadpool_limits(1):
        numba.set_num_threads(1)
        try:
            yield
        finally:
            numba.set_num_threads(threads)
