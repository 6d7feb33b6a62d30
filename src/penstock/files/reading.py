"""Reading with the hash checked on the way.

1. The last byte of a file is handed out only after the hash of all of them was found right.
2. Memory is one block, whatever the file's size.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from typing import Protocol

from penstock.files.errors import FileChanged
from penstock.files.saved import SavedFile
from penstock.files.sources import BLOCK_BYTES


class Body(Protocol):
    """Where the bytes come from."""

    def read(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


class CheckedStream(io.RawIOBase):
    """Hands out `body` and compares it with `expected`; None expects nothing."""

    def __init__(
        self, file: str, body: Body, expected: SavedFile | None, wrapped: Callable[[OSError], Exception] | None = None
    ) -> None:
        self._file = file
        self._body = body
        self._expected = expected
        self._wrapped = wrapped
        self._digest = hashlib.sha256()
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        try:
            block = self._body.read(min(len(buffer), BLOCK_BYTES))
        except OSError as error:
            raise self._wrapped(error) if self._wrapped else error from error
        self._check(block)
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        if not self.closed:
            self._body.close()
        super().close()

    def _check(self, block: bytes) -> None:
        expected = self._expected
        if expected is None:
            return
        self._digest.update(block)
        self._size += len(block)
        ended = not block and self._size != expected.size
        if ended or self._size > expected.size:
            raise changed_size(self._file, expected, self._size)
        if self._size == expected.size and self._digest.hexdigest() != expected.sha256:
            raise changed_hash(self._file, expected, self._digest.hexdigest())


def checked(
    file: str, body: Body, expected: SavedFile | None, wrapped: Callable[[OSError], Exception] | None = None
) -> io.BufferedReader:
    """A binary stream on `body`, for pieces, lines or the whole; it raises FileChanged rather than end wrongly."""
    return io.BufferedReader(CheckedStream(file, body, expected, wrapped), BLOCK_BYTES)


_AGAIN = "Save it again, or take the copy that was saved; `penstock files verify` finds every such file"


def changed_size(file: str, expected: SavedFile, size: int) -> FileChanged:
    return FileChanged(file, f"it has {size:,} bytes, but {expected.size:,} were saved at {expected.saved_at}", _AGAIN)


def changed_hash(file: str, expected: SavedFile, digest: str) -> FileChanged:
    reason = f"its SHA-256 is {digest[:12]}…, but {expected.sha256[:12]}… was saved at {expected.saved_at}"
    return FileChanged(file, reason, _AGAIN)
