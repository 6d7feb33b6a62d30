"""A folder, entered part by part and never through a symbolic link.

Where the system can (Linux, macOS), each part is opened relative to the one before it, so that nobody who swaps a
folder for a link in between leads us out. Elsewhere each part is looked at before it is used.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ENOTDIR
from pathlib import Path

_RELATIVE = os.open in os.supports_dir_fd and os.rename in os.supports_dir_fd
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW
_BINARY = getattr(os, "O_BINARY", 0)
_RACES = 100  # against those who remove a folder as soon as it is empty


@dataclass(frozen=True, slots=True)
class Place:
    """A name in an open folder; where folders cannot be opened, a path without links."""

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
        """Of the name itself, not of what a link points at."""
        return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)

    def remove(self) -> None:
        os.unlink(self.name, dir_fd=self.folder)

    def set_time(self, nanoseconds: int) -> None:
        os.utime(self.name, ns=(nanoseconds, nanoseconds), dir_fd=self.folder)

    def rename_to(self, other: Place) -> None:
        """Replaces what is there, and returns when that is on the disk."""
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
        """The place that `parts` name; `make` makes the folders that lead there. Raises OSError."""
        if not _RELATIVE:
            yield Place(str(self._looked_at(parts, make)), None)
            return
        with self._folder(parts[:-1], make) as folder:
            yield Place(parts[-1], folder)

    def files(self, parts: tuple[str, ...] = (), begins: str = "") -> Iterator[tuple[tuple[str, ...], os.stat_result]]:
        """The regular files under a folder, in the order of their names joined by "/"; links are passed over.

        `begins` is how the first names after `parts` begin.
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
        """Removes folders that are empty, from the innermost up."""
        for depth in range(len(parts), 0, -1):
            try:
                with self.place(parts[:depth]) as place:
                    os.rmdir(place.name, dir_fd=place.folder)
            except OSError:
                return

    def _names(self, parts: tuple[str, ...]) -> list[tuple[str, bool]]:
        try:
            with self._listing(parts) as folder, os.scandir(folder) as found:
                names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        except (FileNotFoundError, NotADirectoryError):
            return []
        # "a-b" comes before "a/b", and "a/b" before "a0": as their keys do.
        return sorted(names, key=lambda one: one[0] + "/" * one[1])

    @contextmanager
    def _listing(self, parts: tuple[str, ...]) -> Iterator[int | str]:
        if not _RELATIVE:
            yield str(self._looked_at((*parts, ""), False))
            return
        with self._folder(parts, False) as folder:
            yield folder

    @contextmanager
    def _folder(self, parts: tuple[str, ...], make: bool) -> Iterator[int]:
        folder = self._entered(parts, make)
        try:
            yield folder
        finally:
            os.close(folder)

    def _entered(self, parts: tuple[str, ...], make: bool) -> int:
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

    def _looked_at(self, parts: tuple[str, ...], make: bool) -> Path:
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
