"""The one interface of file stores: a folder (`folder.py`) or a part of a bucket (`bucket.py`).

    out/, /srv/files, file:///srv/files     a folder, created by the first save
    s3://bucket, s3://bucket/prefix         a bucket, or a part of it; ?region=… and ?profile=… may follow

AWS_ENDPOINT_URL_S3 and AWS_ENDPOINT_URL select another S3 than AWS's, as they do for every AWS SDK. Both promise:

1. A key has a whole file or none: the old bytes until the new ones are complete, whatever happens in between.
2. Nothing outside the store is read or written: every key passes `checked_key`.
3. What is read is what was saved, by size and SHA-256, or FileChanged is raised before the last byte.
4. Memory is bounded, whatever a file's size.
5. Any number of threads and processes use a store at once. Of two that save one key, the last to finish wins, whole.
"""

from __future__ import annotations

import io
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from penstock.clock import Clock, SystemClock, utc_text
from penstock.files.content import (
    BLOCK_BYTES,
    ByteSource,
    Data,
    ListedFile,
    SavedFile,
    Swept,
    checked_type,
    hash_of,
    type_of,
)
from penstock.files.errors import BadStoreUrl, FileChanged, FileMissing, FileTooLarge
from penstock.files.keys import PREFIX_BYTES, checked_key, checked_prefix

READ_BYTES = 16 * 1024 * 1024
"""The default limit of `read`; `open` has none."""

URL_SECONDS = 3600
LONGEST_URL_SECONDS = 7 * 86_400
"""S3's limit for a signed URL."""

SWEEP_SECONDS = 86_400.0
"""Younger files are left alone: their save may be under way, or their item not yet written."""

Keep = Callable[[str], bool]
Tell = Callable[[ListedFile], None]
Remove = Callable[[ListedFile], bool]
"""False if another process was faster."""


class Files(ABC):
    """Files by key. `open_files` returns one."""

    where: str
    """The store's own URL or path."""

    def save(self, key: str, data: Data, *, content_type: str | None = None) -> SavedFile:
        """Saves bytes, a binary file or an iterator of bytes, in blocks; replaces what was there.

        Nothing is visible until all of it is on the disk, or in the bucket. Raises FileError. An exception of `data`
        passes through, and leaves nothing.
        """
        key = checked_key(key)
        kind = type_of(key) if content_type is None else checked_type(content_type)
        return self._save(key, ByteSource(data), kind)

    def open(self, key: str, *, expect: SavedFile | None = None) -> io.BufferedReader:
        """A stream of the file's bytes, checked while it is read against `expect`, else against what was saved.

        Raises FileMissing; the stream raises FileChanged if the bytes differ.
        """
        return self._open(checked_key(key), expect)

    def read(self, key: str, *, limit: int = READ_BYTES, expect: SavedFile | None = None) -> bytes:
        """All of a small file. Raises FileTooLarge above `limit` bytes: then use `open`."""
        with self.open(key, expect=expect) as stream:
            data = stream.read(limit + 1)
        if len(data) > limit:
            raise FileTooLarge(self.name_of(key), f"it has more than {limit:,} bytes", "Use open(), or a higher limit")
        return data

    def exists(self, key: str) -> bool:
        """Whether there is such a file."""
        return self._exists(checked_key(key))

    def info(self, key: str) -> SavedFile:
        """What was saved under this key. A file that Penstock did not save is read whole for its hash."""
        key = checked_key(key)
        return self._read_saved(key) or self._hash_whole(key)

    def saved_info(self, key: str) -> SavedFile | None:
        """What was saved under this key; None for a file that is there, but was not saved by Penstock."""
        return self._read_saved(checked_key(key))

    def delete(self, key: str) -> None:
        """Removes the file; a missing one is no error."""
        self._delete(checked_key(key))

    def list(self, prefix: str = "") -> Iterator[ListedFile]:
        """The files whose keys begin with `prefix`, in the order of their keys, a page at a time."""
        return self._list(checked_prefix(prefix))

    def url(self, key: str, *, seconds: int = URL_SECONDS) -> str:
        """A URL for readers: signed and valid for `seconds` in a bucket, file:// in a folder."""
        if not 1 <= seconds <= LONGEST_URL_SECONDS:
            raise ValueError(f"a URL lives 1 to {LONGEST_URL_SECONDS} seconds, not {seconds}")
        return self._url(checked_key(key), seconds)

    def sweep(
        self,
        keep: Keep | None = None,
        *,
        older_than_seconds: float = SWEEP_SECONDS,
        dry_run: bool = False,
        tell: Tell | None = None,
    ) -> Swept:
        """Removes the leftovers of interrupted saves and, if `keep` is given, every file whose key `keep` rejects.

        Only files older than `older_than_seconds`. `tell` is called with each; `dry_run` removes nothing.
        """
        sweep = Sweep(older_than_seconds, dry_run, tell or (lambda file: None))
        self._sweep_leftovers(sweep)
        if keep is not None:
            self._sweep_orphans(keep, sweep)
        return Swept(sweep.leftovers, sweep.orphans, sweep.size)

    def missing(self, prefix: str = "") -> Iterator[SavedFile]:
        """Files in the manifest that do not exist: removed by hand, or their save was interrupted."""
        checked_prefix(prefix)
        return iter(())

    def name_of(self, key: str) -> str:
        """The file's full name, as errors show it."""
        return f"{self.where.rstrip('/')}/{key}"

    def _hash_whole(self, key: str) -> SavedFile:
        changed_at = utc_text(self._stat(key).changed_at)
        with self._open(key, None) as stream:
            digest, size = hash_of(stream)
        return SavedFile(key, size, digest, changed_at, type_of(key))

    def _sweep_orphans(self, keep: Keep, sweep: Sweep) -> None:
        for file in self._list(""):
            if sweep.takes(file, self._now()) and not keep(file.key):
                sweep.orphan(file, self._delete_if_unchanged)

    def _delete_if_unchanged(self, file: ListedFile) -> bool:
        """Removes the file unless it was saved again or deleted since it was listed."""
        try:
            still = self._stat(file.key) == file
        except FileMissing:
            return False
        if still:
            self._delete(file.key)
        return still

    @abstractmethod
    def _now(self) -> float: ...

    @abstractmethod
    def _save(self, key: str, source: ByteSource, content_type: str) -> SavedFile: ...

    @abstractmethod
    def _open(self, key: str, expect: SavedFile | None) -> io.BufferedReader: ...

    @abstractmethod
    def _exists(self, key: str) -> bool: ...

    @abstractmethod
    def _read_saved(self, key: str) -> SavedFile | None: ...

    @abstractmethod
    def _stat(self, key: str) -> ListedFile: ...

    @abstractmethod
    def _delete(self, key: str) -> None: ...

    @abstractmethod
    def _list(self, prefix: str) -> Iterator[ListedFile]: ...

    @abstractmethod
    def _url(self, key: str, seconds: int) -> str: ...

    @abstractmethod
    def _sweep_leftovers(self, sweep: Sweep) -> None: ...


class Sweep:
    """A sweep: which files it removes, and how many it has removed."""

    def __init__(self, older_than_seconds: float, dry_run: bool, tell: Tell) -> None:
        self.leftovers = self.orphans = self.size = 0
        self._older_than_seconds = older_than_seconds
        self._dry_run = dry_run
        self._tell = tell

    def takes(self, file: ListedFile, now: float) -> bool:
        return now - file.changed_at >= self._older_than_seconds

    def leftover(self, file: ListedFile, remove: Remove) -> None:
        self.leftovers += self._remove(file, remove)

    def orphan(self, file: ListedFile, remove: Remove) -> None:
        self.orphans += self._remove(file, remove)

    def _remove(self, file: ListedFile, remove: Remove) -> bool:
        if not self._dry_run and not remove(file):
            return False
        self.size += file.size
        self._tell(file)
        return True


# ── opening ──────────────────────────────────────────────────────────────────────────────────────

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")  # of two letters at least: C:\ is a folder
_BUCKET = re.compile(r"[a-z0-9A-Z][a-z0-9A-Z._-]{1,253}[a-z0-9A-Z]")
_OURS = "Use a folder's path, a file:// URL, or s3://bucket/prefix"


def open_files(where: str | os.PathLike[str], *, clock: Clock | None = None, client: Any = None) -> Files:
    """The file store that `where` names. Nothing is created or requested yet.

    `client` is a botocore client of S3 to use instead of a new one. Raises BadStoreUrl.
    """
    text, clock = os.fspath(where), clock or SystemClock()
    scheme = _SCHEME.match(text)
    match scheme and scheme.group(1).lower():
        case None:
            return _folder(text, text, clock)
        case "file":
            return _folder(text, _path_of(text), clock)
        case "s3":
            return _bucket(text, clock, client)
    raise BadStoreUrl(text, "no files are kept there", _OURS)


def _folder(shown: str, path: str, clock: Clock) -> Files:
    from penstock.files.folder import FolderFiles

    if not path or "\0" in path:
        raise BadStoreUrl(repr(shown), "it is no path", _OURS)
    return FolderFiles(Path(path), clock)


def _path_of(url: str) -> str:
    from urllib.request import url2pathname  # brings http and ssl along, which most callers do not need

    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise BadStoreUrl(
            url, f"a file URL names no host, and {parts.netloc!r} is one", "Write file:///path, three slashes"
        )
    return url2pathname(parts.path)


def _bucket(url: str, clock: Clock, client: Any) -> Files:
    from penstock.files.bucket import S3, BucketFiles

    parts = urlsplit(url)
    if not _BUCKET.fullmatch(parts.netloc):
        raise BadStoreUrl(url, f"{parts.netloc!r} is no bucket's name", _OURS)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := set(options) - {"region", "profile"}:
        raise BadStoreUrl(url, f"{', '.join(sorted(unknown))} is no option", "Use region and profile only")
    prefix = parts.path.strip("/")
    if prefix and len(checked_key(prefix).encode()) > PREFIX_BYTES:
        raise BadStoreUrl(url, f"its prefix has more than {PREFIX_BYTES} bytes", "Shorten it")
    return BucketFiles(S3(parts.netloc, options.get("region"), options.get("profile"), client), prefix, clock)


# ── verifying ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of `verify`; `changed` and `lost` are keys with the reason."""

    files: int
    size: int
    unknown: int
    """Files that Penstock did not save, and has no hash of."""
    changed: tuple[tuple[str, str], ...]
    lost: tuple[tuple[str, str], ...]

    @property
    def good(self) -> bool:
        return not self.changed and not self.lost


def verify(files: Files, prefix: str = "", tell: Callable[[int], None] = lambda size: None) -> Verified:
    """Checks that every file under `prefix` is what was saved: reads each whole, in bounded memory.

    `tell` is called with the size of each block.
    """
    count = size = unknown = 0
    changed: list[tuple[str, str]] = []
    for listed in files.list(prefix):
        try:
            if files.saved_info(listed.key) is None:
                unknown += 1
            size += _read(files, listed.key, tell)
        except FileChanged as error:
            changed.append((listed.key, error.reason))
        except FileMissing:
            continue  # deleted since it was listed
        count += 1
    lost = tuple((saved.key, f"saved at {saved.saved_at}, but not there") for saved in files.missing(prefix))
    return Verified(count, size, unknown, tuple(changed), lost)


def _read(files: Files, key: str, tell: Callable[[int], None]) -> int:
    size = 0
    with files.open(key) as stream:
        while block := stream.read(BLOCK_BYTES):
            size += len(block)
            tell(len(block))
    return size
