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


class Staged:
    """A new file, to be written, synced and renamed."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._handle = _locked(place)
        self._open = True

    def write(self, block: bytes) -> None:
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(self._handle, rest) :]

    def sync(self) -> None:
        os.fsync(self._handle)

    def rename_to(self, other: Place) -> None:
        if os.name == "nt":
            self.close()  # Windows renames no file that is open
        self.place.rename_to(other)

    def close(self) -> None:
        if self._open:
            self._open = False
            os.close(self._handle)


@contextmanager
def staged(tree: Tree) -> Iterator[Staged]:
    """A new file in `_temp/`; it is removed if anything fails before it has its name."""
    with tree.place((STAGING, token_hex(12)), make=True) as place:
        file = Staged(place)
        try:
            yield file
        except BaseException:
            file.close()
            with suppress(OSError):
                place.remove()
            raise
        finally:
            file.close()


@contextmanager
def abandoned(tree: Tree, parts: tuple[str, ...]) -> Iterator[bool]:
    """Whether nobody writes this staged file any more. It is locked for the block: nobody begins to, either."""
    try:
        with tree.place(parts) as place:
            handle = place.open()
    except OSError:
        yield False  # renamed or removed since it was listed
        return
    try:
        is_free = locks.try_lock(handle)
        if os.name == "nt":
            os.close(handle)  # Windows removes no file that is open
        yield is_free
    finally:
        if os.name != "nt":
            os.close(handle)


def _locked(place: Place) -> int:
    while True:
        handle = place.create()
        locks.lock(handle)
        if os.fstat(handle).st_nlink:
            return handle
        os.close(handle)  # a sweep found it before it was locked
