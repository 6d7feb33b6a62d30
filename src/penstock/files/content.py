"""A file's content and its description: the data to save, the stored file, and reading it with its hash checked.

1. The last byte of a file is returned only after the hash of all of them has matched.
2. One block is in memory, whatever the file's size.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from mimetypes import MimeTypes
from typing import Any, Protocol, runtime_checkable

from penstock.files.errors import FileChanged

OCTETS = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file as it was saved. Given to `open` as `expect`, it makes other bytes raise FileChanged."""

    key: str
    size: int
    sha256: str
    """In hex."""
    saved_at: str
    """`2025-06-16T21:19:33.789Z`"""
    content_type: str = OCTETS

    def form(self) -> dict[str, Any]:
        """For JSON or an item's attribute; `parse` is the inverse."""
        return asdict(self)

    @classmethod
    def parse(cls, form: Mapping[str, Any]) -> SavedFile:
        """The inverse of `form`."""
        return cls(form["key"], int(form["size"]), form["sha256"], form["saved_at"], form.get("content_type", OCTETS))


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file in a listing; `changed_at` is in seconds since the epoch."""

    key: str
    size: int
    changed_at: float


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep removed, or with `dry_run` would have."""

    leftovers: int
    """Of saves that never finished."""
    orphans: int
    """Files that `keep` did not know."""
    size: int
    """Bytes of both."""


def type_of(key: str) -> str:
    """The content type by the name's ending."""
    kind, encoding = _types().guess_type(key.rsplit("/", 1)[-1])
    return OCTETS if kind is None or encoding is not None else kind


def checked_type(content_type: str) -> str:
    """Raises ValueError for a type that a header cannot carry."""
    if not _TYPE.fullmatch(content_type):
        raise ValueError(f"{content_type!r} is no content type, such as text/plain")
    return content_type


# A parameter has no semicolon of its own, so that there is one way to divide them.
_TYPE = re.compile(r"[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+(?: ?; ?[!-:<-~]+)*")


@lru_cache(maxsize=1)
def _types() -> MimeTypes:
    """Without the machine's own table, so that a file has the same type wherever it is saved."""
    types = MimeTypes(filenames=())
    office = "application/vnd.openxmlformats-officedocument"
    types.add_type(f"{office}.spreadsheetml.sheet", ".xlsx")
    types.add_type(f"{office}.wordprocessingml.document", ".docx")
    types.add_type("application/vnd.apache.parquet", ".parquet")
    types.add_type("application/x-ndjson", ".ndjson")
    types.add_type("application/x-ndjson", ".jsonl")
    return types


# ── data to save ─────────────────────────────────────────────────────────────────────────────────

BLOCK_BYTES = 1024 * 1024


@runtime_checkable
class Readable(Protocol):
    """A file opened with "rb", a response's body, a socket's file."""

    def read(self, size: int = ..., /) -> bytes: ...


Data = bytes | bytearray | memoryview | Readable | Iterable[bytes]


class ByteSource:
    """The bytes of one save: of bytes, a binary file, or anything that yields bytes."""

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
        """Replaces the content of `part` with the next `size` bytes. Returns how many there were."""
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


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


class Body(Protocol):
    """Where the bytes come from."""

    def read(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


class CheckedStream(io.RawIOBase):
    """Returns the bytes of `body` and compares them with `expected`; None compares nothing."""

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


def checked_stream(
    file: str, body: Body, expected: SavedFile | None, wrapped: Callable[[OSError], Exception] | None = None
) -> io.BufferedReader:
    """A binary stream on `body`. It raises FileChanged before its end if the bytes are not those expected."""
    return io.BufferedReader(CheckedStream(file, body, expected, wrapped), BLOCK_BYTES)


_AGAIN = "Save it again, or take the copy that was saved; `penstock files verify` finds every such file"


def changed_size(file: str, expected: SavedFile, size: int) -> FileChanged:
    return FileChanged(file, f"it has {size:,} bytes, but {expected.size:,} were saved at {expected.saved_at}", _AGAIN)


def changed_hash(file: str, expected: SavedFile, digest: str) -> FileChanged:
    reason = f"its SHA-256 is {digest[:12]}…, but {expected.sha256[:12]}… was saved at {expected.saved_at}"
    return FileChanged(file, reason, _AGAIN)
