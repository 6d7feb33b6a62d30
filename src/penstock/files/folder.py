"""Files in a folder of this machine, under their own names.

    out/jobs/j1/report.xlsx    a file: its key is its path
    out/_temp/…                saves under way
    out/.penstock/…            hashes and locks (`manifest.py`)

1. A file is written in `_temp/`, synced, and renamed to its key: a reader sees the old file or the new one.
2. A save holds a lock on its staged file, which ends with its process: a sweep never removes a file being written.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from secrets import randbelow
from typing import BinaryIO

from penstock.clock import Clock, utc_text
from penstock.files import errors
from penstock.files.content import ByteSource, ListedFile, SavedFile, changed_size, checked_stream, hash_of
from penstock.files.errors import FileError
from penstock.files.file_store import Files, Sweep
from penstock.files.folder_tree import Place, StagedFile, Tree, is_abandoned, stage_file
from penstock.files.keys import STAGING, checked_prefix, is_key
from penstock.files.manifest import Manifest, Version, version_of

_RACES = 100  # a reader's or writer's tries while others replace the file or remove its folder
_MILLISECOND = 1_000_000  # in nanoseconds


class FolderFiles(Files):
    """Files in a folder, which the first save creates."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self.where = str(root)
        self._tree = Tree(root)
        self._manifest = Manifest(self._tree)
        self._clock = clock

    def missing(self, prefix: str = "") -> Iterator[SavedFile]:
        begins = checked_prefix(prefix)
        for key, version in self._manifest.newest():
            if key.startswith(begins) and not self._exists(key):
                yield version.saved

    def _now(self) -> float:
        return self._clock.now()

    # ── saving ───────────────────────────────────────────────────────────────────────────────────

    def _save(self, key: str, source: ByteSource, content_type: str) -> SavedFile:
        with self._new_staged_file(key) as file:
            size, sha256 = self._fill(file, source, key)
            now = self._clock.now()
            saved = SavedFile(key, size, sha256, utc_text(now), content_type)
            with self._translated_errors(key):
                # The part below a millisecond is random, so that two versions differ even if the clock stands still.
                file.place.set_time(round(now * 1000) * _MILLISECOND + randbelow(_MILLISECOND))
                self._publish(Version(saved, file.place.stat().st_mtime_ns), file)
        return saved

    @contextmanager
    def _new_staged_file(self, key: str) -> Iterator[StagedFile]:
        with ExitStack() as stack:
            with self._translated_errors(key):
                file = stack.enter_context(stage_file(self._tree))
            yield file

    def _fill(self, file: StagedFile, source: ByteSource, key: str) -> tuple[int, str]:
        digest, size = hashlib.sha256(), 0
        for block in source.blocks():  # its exceptions are the caller's, and pass through
            with self._translated_errors(key):
                file.write(block)
            digest.update(block)
            size += len(block)
        with self._translated_errors(key):
            file.sync()
        return size, digest.hexdigest()

    def _publish(self, new: Version, file: StagedFile) -> None:
        key = new.saved.key
        with self._manifest.lock_key(key):
            before = self._present(key)
            self._manifest.write(key, (new, *before))
            try:
                self._rename(file, tuple(key.split("/")))
            except BaseException:
                if not before and not self._exists(key):
                    self._manifest.forget(key)
                raise

    def _rename(self, file: StagedFile, parts: tuple[str, ...]) -> None:
        for left in reversed(range(_RACES)):
            with self._tree.place(parts, make=True) as place:
                try:
                    file.rename_to(place)
                    break
                except FileNotFoundError:
                    if not left:  # more than a folder that a concurrent delete has pruned
                        raise

    def _present(self, key: str) -> tuple[Version, ...]:
        """The version that the key has now, if the manifest knows it."""
        try:
            stream, found = self._open_file(key)
            with stream:
                version, _ = version_of(self._manifest.versions(key), found, partial(_hash, stream))
        except (FileError, OSError):
            return ()
        return () if version is None else (version,)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def _open(self, key: str, expect: SavedFile | None) -> io.BufferedReader:
        with self._translated_errors(key, reading=True):
            stream, expected = self._open_known(key) if expect is None else (self._open_file(key)[0], expect)
            size = os.fstat(stream.fileno()).st_size
        if expected is not None and size != expected.size:
            stream.close()
            raise changed_size(self.name_of(key), expected, size)
        return checked_stream(
            self.name_of(key), stream, expected, lambda error: errors.from_oserror(self.name_of(key), error)
        )

    def _open_known(self, key: str) -> tuple[BinaryIO, SavedFile | None]:
        """The open file, and what was saved as it."""
        for left in reversed(range(_RACES)):
            stream, found = self._open_file(key)
            try:
                version, sure = version_of(self._manifest.versions(key), found, partial(_hash, stream))
                if sure or version is None or not left or not self._is_replaced(key, found):
                    stream.seek(0)
                    return stream, None if version is None else version.saved
                stream.close()
            except BaseException:
                stream.close()
                raise
        raise AssertionError("the last try returns")

    def _is_replaced(self, key: str, found: os.stat_result) -> bool:
        """Whether another file has the name now: the entry that was read may belong to that one."""
        with self._place(key) as place:
            now = place.stat()
        return (now.st_ino, now.st_mtime_ns) != (found.st_ino, found.st_mtime_ns)

    def _open_file(self, key: str) -> tuple[BinaryIO, os.stat_result]:
        with self._place(key) as place:
            handle = place.open()
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            os.close(handle)
            raise IsADirectoryError(errno.EISDIR, "it is no regular file")
        return os.fdopen(handle, "rb", buffering=0), found

    def _exists(self, key: str) -> bool:
        try:
            self._stat(key)
        except errors.FileMissing:
            return False
        return True

    def _read_saved(self, key: str) -> SavedFile | None:
        with self._translated_errors(key, reading=True):
            stream, saved = self._open_known(key)
            stream.close()
        return saved

    def _stat(self, key: str) -> ListedFile:
        with self._translated_errors(key, reading=True), self._place(key) as place:
            found = place.stat()
        if not stat.S_ISREG(found.st_mode):
            raise errors.missing(self.name_of(key))
        return ListedFile(key, found.st_size, found.st_mtime)

    def _list(self, prefix: str) -> Iterator[ListedFile]:
        *folders, begins = prefix.split("/")
        with self._translated_errors(prefix):
            for parts, found in self._tree.files(tuple(folders), begins):
                key = "/".join(parts)
                if is_key(key):  # staging and the manifest are none
                    yield ListedFile(key, found.st_size, found.st_mtime)

    def _url(self, key: str, seconds: int) -> str:
        return self._tree.root.absolute().joinpath(*key.split("/")).as_uri()

    # ── removing ─────────────────────────────────────────────────────────────────────────────────

    def _delete(self, key: str) -> None:
        with self._translated_errors(key):
            if self._exists(key) or self._manifest.has(key):
                with self._manifest.lock_key(key):
                    self._remove(key)
        self._tree.prune(tuple(key.split("/")[:-1]))

    def _delete_if_unchanged(self, file: ListedFile) -> bool:
        # Under the lock nobody saves it again between the check and the removal.
        with self._translated_errors(file.key), self._manifest.lock_key(file.key):
            if not self._exists(file.key) or self._stat(file.key) != file:
                return False
            self._remove(file.key)
        self._tree.prune(tuple(file.key.split("/")[:-1]))
        return True

    def _remove(self, key: str) -> None:
        with suppress(FileNotFoundError), self._place(key) as place:
            place.remove()
            place.sync_folder()
        self._manifest.forget(key)

    def _sweep_leftovers(self, sweep: Sweep) -> None:
        for parts, found in self._tree.files((STAGING,)):
            file = ListedFile("/".join(parts), found.st_size, found.st_mtime)
            if not sweep.takes(file, self._now()):
                continue
            with is_abandoned(self._tree, parts) as is_left:
                if is_left:
                    sweep.leftover(file, self._remove_staged)
        for lost in list(self.missing()):
            self._sweep_entry(lost.key, sweep)

    def _sweep_entry(self, key: str, sweep: Sweep) -> None:
        # Under the lock no save is between its entry and its file: an entry without a file is from a dead process.
        with self._manifest.lock_key(key):
            versions = self._manifest.versions(key)
            if not versions or self._exists(key):
                return
            entry = ListedFile(key, 0, versions[0].mtime_ns / 1e9)
            if sweep.takes(entry, self._now()):
                sweep.leftover(entry, self._forget)

    def _forget(self, file: ListedFile) -> bool:
        self._manifest.forget(file.key)
        return True

    def _remove_staged(self, file: ListedFile) -> bool:
        try:
            with self._place(file.key) as place:
                place.remove()
        except FileNotFoundError:
            return False
        return True

    # ── paths and errors ─────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _place(self, key: str) -> Iterator[Place]:
        with self._tree.place(tuple(key.split("/"))) as place:
            yield place

    @contextmanager
    def _translated_errors(self, key: str, *, reading: bool = False) -> Iterator[None]:
        """Raises the system's errors as ours."""
        try:
            yield
        except OSError as error:
            if reading and isinstance(error, NotADirectoryError | IsADirectoryError):
                raise errors.missing(self.name_of(key)) from error
            raise errors.from_oserror(self.name_of(key), error) from error


def _hash(stream: BinaryIO) -> str:
    return hash_of(stream)[0]
