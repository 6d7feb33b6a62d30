"""What can be saved: bytes, a binary file, or anything that gives bytes piece by piece; a block at a time in memory."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

BLOCK_BYTES = 1024 * 1024


@runtime_checkable
class Readable(Protocol):
    """A file opened with "rb", a response's body, a socket's file."""

    def read(self, size: int = ..., /) -> bytes: ...


Data = bytes | bytearray | memoryview | Readable | Iterable[bytes]


class Source:
    """The bytes of one save, in blocks of the sizes that are asked for."""

    def __init__(self, data: Data) -> None:
        if isinstance(data, str):
            raise TypeError("save() takes bytes, not a str: give text.encode(), or for a file open(path, 'rb')")
        self._stream = io.BytesIO(data) if isinstance(data, bytes | bytearray | memoryview) else data
        self._pieces: Iterator[bytes] | None = None
        if not isinstance(self._stream, Readable):
            self._pieces = iter(self._stream)
        self._rest = memoryview(b"")
        self._began_at = self._place()

    @property
    def rewindable(self) -> bool:
        """Can be read a second time."""
        return self._began_at is not None

    def rewind(self) -> None:
        assert self._began_at is not None
        self._stream.seek(self._began_at)  # type: ignore[union-attr]

    def block(self, size: int = BLOCK_BYTES) -> bytes:
        """The next `size` bytes; fewer only at the end."""
        parts, missing = [], size
        while missing and (piece := self._piece(missing)):
            parts.append(piece)
            missing -= len(piece)
        return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)

    def fill(self, part: io.BytesIO, size: int) -> int:
        """Puts the next `size` bytes in `part` instead of what is there, and returns how many there were left."""
        part.seek(0)
        while part.tell() < size and (piece := self._piece(min(BLOCK_BYTES, size - part.tell()))):
            part.write(piece)
        part.truncate()
        part.seek(0)
        return part.getbuffer().nbytes

    def blocks(self, size: int = BLOCK_BYTES) -> Iterator[bytes]:
        while block := self.block(size):
            yield block

    read = block

    def _piece(self, most: int) -> bytes | memoryview:
        if self._pieces is None:
            return _bytes(self._stream.read(most), "read()")  # type: ignore[union-attr]
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._rest = memoryview(_bytes(piece, "the iterator"))
        taken, self._rest = self._rest[:most], self._rest[most:]
        return taken

    def _place(self) -> int | None:
        seekable = getattr(self._stream, "seekable", None)
        if self._pieces is not None or seekable is None or not seekable():
            return None
        return int(self._stream.tell())  # type: ignore[union-attr]


def _bytes(piece: object, giver: str) -> bytes:
    if isinstance(piece, bytes):
        return piece
    if isinstance(piece, bytearray | memoryview):
        return bytes(piece)
    hint = "; open the file with 'rb'" if isinstance(piece, str) else ""
    raise TypeError(f"save() takes bytes, but {giver} gave {type(piece).__name__}{hint}")


def hash_of(stream: Readable) -> tuple[str, int]:
    """SHA-256 in hex, and the size."""
    digest, size = hashlib.sha256(), 0
    while block := stream.read(BLOCK_BYTES):
        digest.update(block)
        size += len(block)
    return digest.hexdigest(), size
