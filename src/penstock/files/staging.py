"""New files on their way to their names: made in `_temp/`, and locked by whoever writes them.

A lock dies with its holder. So a sweep knows a file that is still being written from one that a kill left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex

from penstock.files import locks
from penstock.files.keys import STAGING
from penstock.files.tree import Place, Tree


@contextmanager
def staged(tree: Tree) -> Iterator[tuple[Place, int]]:
    """A new file and its handle, to be filled and renamed; it is removed if anything fails."""
    with tree.place((STAGING, token_hex(12)), make=True) as place:
        handle = _locked(place)
        try:
            yield place, handle
        except BaseException:
            with suppress(OSError):
                place.remove()
            raise
        finally:
            os.close(handle)


def write_all(handle: int, block: bytes) -> None:
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(handle, rest) :]


def abandoned(tree: Tree, parts: tuple[str, ...]) -> bool:
    """Nobody writes this staged file any more."""
    try:
        with tree.place(parts) as place:
            handle = place.open()
    except OSError:
        return False  # renamed or removed since it was listed
    try:
        return locks.try_lock(handle)
    finally:
        os.close(handle)


def _locked(place: Place) -> int:
    while True:
        handle = place.create()
        locks.lock(handle)
        if os.fstat(handle).st_nlink:
            return handle
        os.close(handle)  # a sweep found it before it was locked
