"""Paths in a folder that never follow a symbolic link, locks, and staged files.

1. Where the system can (Linux, macOS), each part of a path is opened relative to the one before it: swapping a folder
   for a link in between leads nowhere. Elsewhere each part is checked before it is used.
2. A new file is written in `_temp/` and locked by its writer. The lock ends with its process, so a sweep can tell a
   file that is being written from one that a kill left.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import ENOTDIR
from pathlib import Path
from secrets import token_hex

from penstock.files.keys import STAGING

_RELATIVE = os.open in os.supports_dir_fd and os.rename in os.supports_dir_fd
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW
_BINARY = getattr(os, "O_BINARY", 0)
_RACES = 100  # against those who remove a folder as soon as it is empty


@dataclass(frozen=True, slots=True)
class Place:
    """A name in an open folder; on systems that cannot open folders, a path without links."""

    name: str
    folder: int | None

    def create(self) -> int:
        """A new file, opened for writing."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _BINARY
        return os.open(self.name, flags, 0o666, dir_fd=self.folder)

    def open(self) -> int:
        """For reading. Does not wait for the other end of a pipe."""
        if self.folder is None and Path(self.name).is_symlink():  # there O_NOFOLLOW may be missing, too
            raise NotADirectoryError(ENOTDIR, "a symbolic link is in the way", self.name)
        return os.open(self.name, os.O_RDONLY | _NO_FOLLOW | _BINARY | getattr(os, "O_NONBLOCK", 0), dir_fd=self.folder)

    def open_lock(self) -> int:
        return os.open(self.name, os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o666, dir_fd=self.folder)

    def stat(self) -> os.stat_result:
        """Of the name itself, not of a link's target."""
        return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)

    def remove(self) -> None:
        os.unlink(self.name, dir_fd=self.folder)

    def set_time(self, nanoseconds: int) -> None:
        os.utime(self.name, ns=(nanoseconds, nanoseconds), dir_fd=self.folder)

    def rename_to(self, other: Place) -> None:
        """Replaces the other file, and returns when that is on the disk."""
        os.replace(self.name, other.name, src_dir_fd=self.folder, dst_dir_fd=other.folder)
        other.sync_folder()

    def sync_folder(self) -> None:
        if self.folder is not None:
            os.fsync(self.folder)


class Tree:
    """Everything under `root`; the root itself may be reached through links."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextmanager
    def place(self, parts: tuple[str, ...], *, make: bool = False) -> Iterator[Place]:
        """The place that `parts` name; `make` creates the folders on the way. Raises OSError."""
        if not _RELATIVE:
            yield Place(str(self._checked_path(parts, make)), None)
            return
        with self._folder(parts[:-1], make) as folder:
            yield Place(parts[-1], folder)

    def files(self, parts: tuple[str, ...] = (), begins: str = "") -> Iterator[tuple[tuple[str, ...], os.stat_result]]:
        """The regular files under a folder, in the order of their names joined by "/"; links are skipped.

        The first names after `parts` begin with `begins`.
        """
        for name, is_folder in self._names(parts):
            if not name.startswith(begins):
                continue
            if is_folder:
                yield from self.files((*parts, name))
                continue
            try:
                with self.place((*parts, name)) as place:
                    found = place.stat()
            except OSError:
                continue  # gone since it was listed
            if stat.S_ISREG(found.st_mode):
                yield (*parts, name), found

    def prune(self, parts: tuple[str, ...]) -> None:
        """Removes empty folders, from the innermost up."""
        for depth in range(len(parts), 0, -1):
            try:
                with self.place(parts[:depth]) as place:
                    os.rmdir(place.name, dir_fd=place.folder)
            except OSError:
                return

    def _names(self, parts: tuple[str, ...]) -> list[tuple[str, bool]]:
        try:
            with self._open_for_listing(parts) as folder, os.scandir(folder) as found:
                names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        except (FileNotFoundError, NotADirectoryError):
            return []
        # "a-b" comes before "a/b", and "a/b" before "a0": as their keys do.
        return sorted(names, key=lambda one: one[0] + "/" * one[1])

    @contextmanager
    def _open_for_listing(self, parts: tuple[str, ...]) -> Iterator[int | str]:
        if not _RELATIVE:
            yield str(self._checked_path((*parts, ""), False))
            return
        with self._folder(parts, False) as folder:
            yield folder

    @contextmanager
    def _folder(self, parts: tuple[str, ...], make: bool) -> Iterator[int]:
        folder = self._enter_retrying(parts, make)
        try:
            yield folder
        finally:
            os.close(folder)

    def _enter_retrying(self, parts: tuple[str, ...], make: bool) -> int:
        for _ in range(_RACES):
            try:
                return self._enter(parts, make)
            except FileNotFoundError:
                if not make:
                    raise
        return self._enter(parts, make)

    def _enter(self, parts: tuple[str, ...], make: bool) -> int:
        if make and not self.root.is_dir():
            self.root.mkdir(parents=True, exist_ok=True)
            with Tree(self.root.parent)._folder((), False) as above:
                os.fsync(above)
        folder = os.open(self.root, _FOLDER & ~_NO_FOLLOW)
        try:
            for part in parts:
                inner = _inner(folder, part, make)
                os.close(folder)
                folder = inner
        except BaseException:
            os.close(folder)
            raise
        return folder

    def _checked_path(self, parts: tuple[str, ...], make: bool) -> Path:
        path = self.root
        for part in parts[:-1]:
            path = path / part
            if path.is_symlink():
                raise NotADirectoryError(ENOTDIR, "a symbolic link is in the way", str(path))
            if make:
                path.mkdir(parents=True, exist_ok=True)
        return path / parts[-1]


def _inner(folder: int, part: str, make: bool) -> int:
    try:
        return os.open(part, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    try:
        os.mkdir(part, dir_fd=folder)
        os.fsync(folder)
    except FileExistsError:
        pass  # somebody else made it meanwhile
    return os.open(part, _FOLDER, dir_fd=folder)


# ── locks ────────────────────────────────────────────────────────────────────────────────────────

if sys.platform == "win32":
    import msvcrt

    def lock(handle: int) -> None:
        """Waits until nobody else holds it."""
        while not try_lock(handle):
            time.sleep(0.01)

    def try_lock(handle: int) -> bool:
        os.lseek(handle, 0, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def lock(handle: int) -> None:
        """Waits until nobody else holds it."""
        fcntl.flock(handle, fcntl.LOCK_EX)

    def try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


# ── staging ──────────────────────────────────────────────────────────────────────────────────────


class StagedFile:
    """A new file, to be written, synced and renamed."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._handle = _create_locked(place)
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
def stage_file(tree: Tree) -> Iterator[StagedFile]:
    """A new file in `_temp/`; it is removed if anything fails before its rename."""
    with tree.place((STAGING, token_hex(12)), make=True) as place:
        file = StagedFile(place)
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
def is_abandoned(tree: Tree, parts: tuple[str, ...]) -> Iterator[bool]:
    """Whether the writer of this staged file has ended. The file is locked for the block."""
    try:
        with tree.place(parts) as place:
            handle = place.open()
    except OSError:
        yield False  # renamed or removed since it was listed
        return
    try:
        is_free = try_lock(handle)
        if os.name == "nt":
            os.close(handle)  # Windows removes no file that is open
        yield is_free
    finally:
        if os.name != "nt":
            os.close(handle)


def _create_locked(place: Place) -> int:
    while True:
        handle = place.create()
        lock(handle)
        if os.fstat(handle).st_nlink:
            return handle
        os.close(handle)  # a sweep found it before it was locked
