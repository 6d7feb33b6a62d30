"""The files of an export, as DynamoDB lays them out:

    <prefix>/AWSDynamoDB/<export>/_started              empty: the bucket can be written to
    <prefix>/AWSDynamoDB/<export>/data/<name>.json.gz   items, one a line; of incremental exports in AWSDynamoDB/data/
    <prefix>/AWSDynamoDB/<export>/manifest-files.json   one line a data file
    <prefix>/AWSDynamoDB/<export>/manifest-summary.json
    <prefix>/AWSDynamoDB/<export>/manifest-….md5        of each of the two, in base64

Everything here follows from its arguments: a file that is written again has the same name and the same bytes.
"""

from __future__ import annotations

import hashlib
import zlib
from base64 import b32encode, b64encode
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from penstock.wire import ion
from penstock.wire.values import Item

FILE_BYTES: Final = 16 * 1024 * 1024
"""Of lines in one data file, before they are compressed. A file is put together in memory."""

LEAST_FILES: Final = 4
"""Data files of every export: the last ones may be empty, as DynamoDB's may."""

FOLDER: Final = "AWSDynamoDB"
JSON, ION = "DYNAMODB_JSON", "ION"
_ENDINGS: Final = {JSON: "json.gz", ION: "ion.gz"}
_GZIP: Final = zlib.MAX_WBITS | 16
_AT_ONCE_BYTES: Final = 64 * 1024


class DataFile(NamedTuple):
    """A data file that has been written."""

    key: str
    items: int
    md5: str
    etag: str

    def line(self) -> bytes:
        """Its line in manifest-files.json."""
        members = {
            "itemCount": self.items,
            "md5Checksum": self.md5,
            "etag": self.etag,
            "dataFileS3Key": self.key,
        }
        return orjson.dumps(members) + b"\n"


class Place(NamedTuple):
    """Where an export lies: its prefix, and its name (the last part of its ARN)."""

    prefix: str | None
    name: str
    is_incremental: bool = False

    @property
    def root(self) -> str:
        start = "" if not self.prefix else self.prefix if self.prefix.endswith("/") else f"{self.prefix}/"
        return f"{start}{FOLDER}/"

    def key(self, file: str) -> str:
        return f"{self.root}{self.name}/{file}"

    def data_key(self, number: int, format: str) -> str:
        """The name of a data file is 26 letters and digits, which follow from the export's."""
        digest = hashlib.sha256(f"{self.name}/{number}".encode()).digest()[:16]
        name = b32encode(digest).decode().rstrip("=").lower()
        folder = f"{self.root}data/" if self.is_incremental else self.key("data/")
        return f"{folder}{name}.{_ENDINGS[format]}"


class DataBuffer:
    """The lines of one data file, compressed as they come."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
        self._pieces: list[bytes] = []
        self._lines: list[bytes] = []
        self._compressed = 0
        self.items = 0
        self.size = 0

    @property
    def is_full(self) -> bool:
        return self.size >= FILE_BYTES

    def add(self, line: bytes) -> None:
        self._lines.append(line)
        self.items += 1
        self.size += len(line)
        if self.size - self._compressed > _AT_ONCE_BYTES:
            self._compress()

    def data(self) -> bytes:
        self._compress()
        return b"".join([*self._pieces, self._compressor.flush()])

    def _compress(self) -> None:
        """Many lines at once: other threads run meanwhile."""
        self._pieces.append(self._compressor.compress(b"".join(self._lines)))
        self._lines.clear()
        self._compressed = self.size


def md5_text(data: bytes) -> str:
    """The MD5 in base64, as manifests have it."""
    return b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


# ── lines ────────────────────────────────────────────────────────────────────────────────────────


def item_line(format: str, item: bytes | Item) -> bytes:
    """An item of a full export; in bytes it is JSON already."""
    if format == JSON:
        return b'{"Item":' + (item if isinstance(item, bytes) else orjson.dumps(item)) + b"}\n"
    told = orjson.loads(item) if isinstance(item, bytes) else item
    return ion.line({"Item": ion.item_text(told)}).encode() + b"\n"


def change_line(format: str, keys: Item, micros: int, old: Item | None, new: Item | None) -> bytes:
    """A change of an incremental export."""
    images = {name: image for name, image in (("OldImage", old), ("NewImage", new)) if image is not None}
    if format == JSON:
        return orjson.dumps({"Metadata": {"WriteTimestampMicros": str(micros)}, "Keys": keys, **images}) + b"\n"
    told = {name: ion.item_text(image) for name, image in images.items()}
    members = {"Keys": ion.item_text(keys), "Metadata": f"{{WriteTimestampMicros:{micros}.}}", **told}
    return ion.line(members, outer="Record").encode() + b"\n"


# ── manifests ────────────────────────────────────────────────────────────────────────────────────


def summary(place: Place, members: Mapping[str, Any]) -> bytes:
    """manifest-summary.json; `members` are what the export knows of itself."""
    version = "2023-08-01" if place.is_incremental else "2020-06-30"
    return orjson.dumps({"version": version, **members, "manifestFilesS3Key": place.key("manifest-files.json")})
