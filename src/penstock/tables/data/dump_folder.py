"""A table in a folder: DynamoDB's export format, with the definition beside it.

    table.json               the definition, as `penstock tables export` writes it
    data/00000.json.gz …     the items: one {"Item": …} a line, compressed
    manifest-files.json      a line for each part: its name, item count and checksums
    manifest-summary.json    counts and times; written last

1. A part is written under another name, synced, then renamed: a part with its name is whole.
2. A folder without manifest-summary.json is half written, and is refused by everyone but the dump that continues it.
3. What is read was checked: size, MD5 and SHA-256 of a part are those of the manifest, or nothing of it is used.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import orjson

from penstock.errors import PenstockError
from penstock.wire.values import Item

DEFINITION = "table.json"
DATA = "data"
FILES = "manifest-files.json"
SUMMARY = "manifest-summary.json"
STATE = "dump-state.json"
VERSION = "2020-06-30"
"""Of the export format: DynamoDB's own."""

_LEVEL = 3  # of compression: twice as fast as the default for a tenth more bytes
_READ_BYTES = 1024 * 1024


class FolderError(PenstockError):
    """A folder that cannot be loaded: which file, why, and what to do."""

    def __init__(self, file: Path, reason: str, next_step: str) -> None:
        super().__init__(str(file), reason, next_step)
        self.file = file
        self.reason = reason
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}. {self.next_step}."


@dataclass(frozen=True, slots=True)
class Part:
    """A file of items; `file` is relative to the folder."""

    file: str
    items: int
    bytes: int
    md5: str
    sha256: str | None
    """Absent in an export that AWS wrote."""

    def form(self) -> dict[str, Any]:
        return {
            "itemCount": self.items,
            "md5Checksum": self.md5,
            "sha256Checksum": self.sha256,
            "sizeBytes": self.bytes,
            "dataFileS3Key": self.file,
        }

    @classmethod
    def parse(cls, form: dict[str, Any]) -> Part:
        size = int(form.get("sizeBytes", -1))
        return cls(form["dataFileS3Key"], int(form["itemCount"]), size, form["md5Checksum"], form.get("sha256Checksum"))


@dataclass(frozen=True, slots=True)
class Dump:
    """A whole dump: its folder, its parts, and what its summary says."""

    folder: Path
    parts: tuple[Part, ...]
    summary: dict[str, Any]

    @property
    def items(self) -> int:
        return int(self.summary["itemCount"])


class PartWriter:
    """A part on its way to the disk. It has its name when `close` returns, and not before."""

    def __init__(self, folder: Path, number: int) -> None:
        self.file = f"{DATA}/{number:05d}.json.gz"
        self.items = 0
        self.written_bytes = 0
        self._path = folder / self.file
        self._unfinished = self._path.with_suffix(".gz.part")
        self._raw: IO[bytes] = self._unfinished.open("wb")
        # Neither name nor time in the header: the same items are the same bytes.
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=self._raw, mtime=0)

    def write(self, items: Iterable[Item]) -> None:
        lines = [orjson.dumps({"Item": item}) for item in items]
        if lines:
            text = b"\n".join(lines) + b"\n"
            self._gzip.write(text)
            self.items += len(lines)
            self.written_bytes += len(text)

    def close(self) -> Part:
        self._gzip.close()
        self._raw.flush()
        os.fsync(self._raw.fileno())
        self._raw.close()
        md5, sha256, size = checksums(self._unfinished)
        self._unfinished.replace(self._path)
        sync_folder(self._path.parent)
        return Part(self.file, self.items, size, md5, sha256)

    def abandon(self) -> None:
        """Leaves nothing of a part that is not wanted."""
        self._gzip.close()
        self._raw.close()
        self._unfinished.unlink(missing_ok=True)


def checksums(path: Path) -> tuple[str, str, int]:
    """MD5 in base64 (as AWS writes it), SHA-256 in hex, and the size."""
    md5, sha256, size = hashlib.md5(usedforsecurity=False), hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            md5.update(block)
            sha256.update(block)
            size += len(block)
    return b64encode(md5.digest()).decode(), sha256.hexdigest(), size


def replace_file(path: Path, content: bytes) -> None:
    """The file has this content or the one before, whatever happens."""
    unfinished = path.with_name(path.name + ".new")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return  # elsewhere a folder cannot be synced
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ── manifests ────────────────────────────────────────────────────────────────────────────────────


def write_manifests(folder: Path, parts: Iterable[Part], summary: dict[str, Any]) -> None:
    """The list of parts, then the summary: with it the dump is whole."""
    files = b"".join(orjson.dumps(part.form()) + b"\n" for part in parts)
    replace_file(folder / FILES, files)
    replace_file(
        folder / SUMMARY,
        orjson.dumps(
            {**summary, "manifestFilesSha256": hashlib.sha256(files).hexdigest()},
            option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
        ),
    )


def open_dump(folder: Path) -> Dump:
    """The dump in a folder, its manifests checked. Raises FolderError for what is none, or is half written."""
    if not folder.is_dir():
        raise FolderError(folder, "there is no such folder", "Give the folder that `penstock tables dump` wrote")
    summary_path, files_path = folder / SUMMARY, folder / FILES
    if not summary_path.exists():
        if (folder / STATE).exists():
            raise FolderError(folder, _unfinished(folder), "Run the same `penstock tables dump` again: it continues")
        raise FolderError(summary_path, "there is no such file", "Give a folder that `penstock tables dump` wrote")
    summary = _json(summary_path)
    files = files_path.read_bytes() if files_path.exists() else b""
    told = summary.get("manifestFilesSha256")
    if told is not None and hashlib.sha256(files).hexdigest() != told:
        raise FolderError(files_path, "it is not what the summary was written for", "Dump the table again")
    parts = tuple(_part(files_path, at, line) for at, line in enumerate(files.splitlines(), 1) if line.strip())
    if sum(part.items for part in parts) != summary.get("itemCount"):
        raise FolderError(files_path, f"its parts are not the {summary.get('itemCount')} items told", "Dump it again")
    return Dump(folder, parts, summary)


def _unfinished(folder: Path) -> str:
    state = _json(folder / STATE)
    return (
        f"the dump is half written ({len(state['parts'])} parts, {sum(p['itemCount'] for p in state['parts']):,} items)"
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        read = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise FolderError(path, f"broken JSON at line {error.lineno}: {error.msg}", "Dump the table again") from None
    if not isinstance(read, dict):
        raise FolderError(path, "it is no JSON object", "Dump the table again")
    return read


def _part(path: Path, line: int, text: bytes) -> Part:
    try:
        return Part.parse(orjson.loads(text))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise FolderError(path, f"line {line} is no part of a dump ({error})", "Dump the table again") from None


# ── parts ────────────────────────────────────────────────────────────────────────────────────────


def part_path(folder: Path, part: Part) -> Path:
    """Where a part lies. AWS names its parts by their place in the bucket; the folder has them under data/."""
    name = Path(part.file)
    own = folder / part.file
    return own if not name.is_absolute() and ".." not in name.parts and own.exists() else folder / DATA / name.name


def check_part(folder: Path, part: Part) -> None:
    """Raises FolderError unless the file is there and is what was written."""
    path = part_path(folder, part)
    if not path.is_file():
        raise FolderError(path, "the part is missing", "Copy the folder again, or dump the table again")
    md5, sha256, size = checksums(path)
    if md5 != part.md5 or (part.sha256 is not None and sha256 != part.sha256):
        told = f"{size:,} bytes instead of {part.bytes:,}" if part.bytes not in (-1, size) else "its checksum differs"
        raise FolderError(path, f"the part is not what was written: {told}", "Copy the folder again, or dump again")


def read_part(folder: Path, part: Part) -> Iterator[Item]:
    """The items of a part, one at a time."""
    path = part_path(folder, part)
    with gzip.open(path, "rb") as file:
        for at, line in enumerate(file, 1):
            try:
                item: Item = orjson.loads(line)["Item"]
            except (orjson.JSONDecodeError, KeyError, TypeError) as error:
                raise FolderError(path, f"line {at} is no item ({error})", "Dump the table again") from None
            yield item
