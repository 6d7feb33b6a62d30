"""The libraries of the `delphi` extra: imported when a run needs them, never when a command starts.

Results must be the same for the same seed, whatever the machine: `one_thread` keeps the libraries' sums in one order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from penstock.extras import extra, missing

_EXTRA: Final = "delphi"
_NEEDED: Final = (
    "numpy", "scipy", "sklearn", "matplotlib", "py3langid", "stopwordsiso", "snowballstemmer", "rjieba",
    "tinysegmenter", "opencc", "wordllama",
)  # fmt: skip
_INSTALLS: Final = {"sentence_transformers": "pip install sentence-transformers"}


def library(name: str) -> Any:
    """The module; raises ExtraMissing."""
    with extra(_EXTRA, "Delphi", install=_INSTALLS.get(name)), _logging_left_alone():
        return import_module(name)


@contextmanager
def _logging_left_alone() -> Iterator[None]:
    """WordLlama calls `logging.basicConfig` when it is imported, which does nothing where the root has a handler."""
    if logging.root.handlers or logging.lastResort is None:
        yield
        return
    logging.root.addHandler(logging.lastResort)  # what is printed without a handler is printed meanwhile, too
    try:
        yield
    finally:
        logging.root.removeHandler(logging.lastResort)


def check_installed(*further: str) -> None:
    """Raises ExtraMissing unless a run could begin: before anything is read or written."""
    for name in missing(*_NEEDED, *further):
        library(name)


@contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra runs in one thread here: a sum in another order is another sum."""
    with library("threadpoolctl").threadpool_limits(1):
        yield


@contextmanager
def one_compiled_thread() -> Iterator[None]:
    """Loops that numba compiles, EVoC's, run in one thread here."""
    numba = library("numba")
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        yield
    finally:
        numba.set_num_threads(threads)
