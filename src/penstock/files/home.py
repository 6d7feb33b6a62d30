"""The one interface. A home is where files live: a folder (`folder.py`) or a part of a bucket (`bucket.py`).

What both homes promise:

1. A key shows a whole file or none: the old bytes until the new ones are complete, whatever happens in between.
2. Nothing outside the home is ever read or written: every key passes `checked_key`.
3. What is read is what was saved, by size and SHA-256, or FileChanged is raised before the last byte.
4. Memory is bounded, whatever a file's size.
5. Any number of threads and processes use a home at once; of two that save one key, the last to finish is kept whole.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from penstock.clock import utc_text
from penstock.files.errors import FileMissing, FileTooLarge
from penstock.files.keys import checked_key, checked_prefix
from penstock.files.saved import ListedFile, SavedFile, Swept, checked_type, type_of
from penstock.files.sources import Data, Source, hash_of

READ_BYTES = 16 * 1024 * 1024
"""`read` gives no more than this unless told; `open` has no limit."""

URL_SECONDS = 3600
LONGEST_URL_SECONDS = 7 * 86_400
"""A signed URL of S3 lives no longer."""

SWEEP_SECONDS = 86_400.0
"""What is younger is left alone: its save may be under way, or its item not yet written."""

Keep = Callable[[str], bool]
Tell = Callable[[ListedFile], None]
Remove = Callable[[ListedFile], bool]
"""False if somebody else was faster."""


class Files(ABC):
    """Files by key. Made by `open_files`."""

    where: str
    """The home's own URL or path."""

    def save(self, key: str, data: Data, *, content_type: str | None = None) -> SavedFile:
        """Saves bytes, a binary file or an iterator of bytes, in blocks; replaces what was there.

        Nothing is visible until all of it is on the disk, or in the bucket. Raises FileError; what `data` raises
        comes through, and leaves nothing.
        """
        key = checked_key(key)
        kind = type_of(key) if content_type is None else checked_type(content_type)
        return self._save(key, Source(data), kind)

    def open(self, key: str, *, expect: SavedFile | None = None) -> io.BufferedReader:
        """A stream of the file's bytes, checked on the way against `expect`, else against what was saved.

        Raises FileMissing, and FileChanged when the stream ends otherwise than it should.
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
        """What was saved under this key. A file that Penstock did not save is read whole, for its hash."""
        key = checked_key(key)
        return self._saved(key) or self._hashed(key)

    def saved(self, key: str) -> SavedFile | None:
        """What was saved under this key; None for a file that is there, but was not saved by Penstock."""
        return self._saved(checked_key(key))

    def delete(self, key: str) -> None:
        """Removes the file; one that is not there is no error."""
        self._delete(checked_key(key))

    def list(self, prefix: str = "") -> Iterator[ListedFile]:
        """The files whose keys begin with `prefix`, in the order of their keys, a page at a time."""
        return self._list(checked_prefix(prefix))

    def url(self, key: str, *, seconds: int = URL_SECONDS) -> str:
        """Where others can read it: signed and valid for `seconds` in a bucket, file:// in a folder."""
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
        """Removes what saves that were cut short left, and, if `keep` is given, every file whose key it does not know.

        Only what is older than `older_than_seconds`. `tell` hears of each; `dry_run` removes nothing.
        """
        sweeping = Sweeping(older_than_seconds, dry_run, tell or (lambda file: None))
        self._sweep_leftovers(sweeping)
        if keep is not None:
            self._sweep_orphans(keep, sweeping)
        return Swept(sweeping.leftovers, sweeping.orphans, sweeping.size)

    def lost(self, prefix: str = "") -> Iterator[SavedFile]:
        """What the manifest knows but is no longer there: removed by hand, or its save was cut short."""
        checked_prefix(prefix)
        return iter(())

    def name_of(self, key: str) -> str:
        """The file's full name, as errors show it."""
        return f"{self.where.rstrip('/')}/{key}"

    def _hashed(self, key: str) -> SavedFile:
        changed_at = utc_text(self._listed(key).changed_at)
        with self._open(key, None) as stream:
            digest, size = hash_of(stream)
        return SavedFile(key, size, digest, changed_at, type_of(key))

    def _sweep_orphans(self, keep: Keep, sweeping: Sweeping) -> None:
        for file in self._list(""):
            if sweeping.takes(file, self._now()) and not keep(file.key):
                sweeping.orphan(file, self._delete_listed)

    def _delete_listed(self, file: ListedFile) -> bool:
        """Removes the file unless it was saved anew, or went, since it was listed."""
        try:
            still = self._listed(file.key) == file
        except FileMissing:
            return False
        if still:
            self._delete(file.key)
        return still

    @abstractmethod
    def _now(self) -> float: ...

    @abstractmethod
    def _save(self, key: str, source: Source, content_type: str) -> SavedFile: ...

    @abstractmethod
    def _open(self, key: str, expect: SavedFile | None) -> io.BufferedReader: ...

    @abstractmethod
    def _exists(self, key: str) -> bool: ...

    @abstractmethod
    def _saved(self, key: str) -> SavedFile | None: ...

    @abstractmethod
    def _listed(self, key: str) -> ListedFile: ...

    @abstractmethod
    def _delete(self, key: str) -> None: ...

    @abstractmethod
    def _list(self, prefix: str) -> Iterator[ListedFile]: ...

    @abstractmethod
    def _url(self, key: str, seconds: int) -> str: ...

    @abstractmethod
    def _sweep_leftovers(self, sweeping: Sweeping) -> None: ...


class Sweeping:
    """A sweep under way: what it takes, and what it took."""

    def __init__(self, older_than_seconds: float, dry_run: bool, tell: Tell) -> None:
        self.leftovers = self.orphans = self.size = 0
        self._older_than_seconds = older_than_seconds
        self._dry_run = dry_run
        self._tell = tell

    def takes(self, file: ListedFile, now: float) -> bool:
        return now - file.changed_at >= self._older_than_seconds

    def leftover(self, file: ListedFile, remove: Remove) -> None:
        self.leftovers += self._took(file, remove)

    def orphan(self, file: ListedFile, remove: Remove) -> None:
        self.orphans += self._took(file, remove)

    def _took(self, file: ListedFile, remove: Remove) -> bool:
        if not self._dry_run and not remove(file):
            return False
        self.size += file.size
        self._tell(file)
        return True
