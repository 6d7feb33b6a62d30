"""The manifest: what was saved under each key of a folder, a small JSON file a key in `.penstock/manifest/`.

    .penstock/manifest/3f/3f5a….json    {"key": …, "versions": [{size, sha256, saved_at, content_type, mtime_ns}, …]}
    .penstock/locks/3f                  locked while one of these keys changes hands

A file and its entry are two files, and cannot be renamed at once. So:

1. An entry is written under the key's lock before its file is renamed. It names the new version and the present one.
   After a crash at any point, the file is one of those two.
2. Its size and time of change tell which; they are set before the rename. Where they cannot (the folder was copied
   without its times), the hash does.
3. Entries are named by the hash of their key, so that no key collides with another key plus ".json".
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from penstock.files.content import SavedFile
from penstock.files.errors import FileError
from penstock.files.folder_tree import Place, Tree, lock, stage_file
from penstock.files.keys import MANIFEST

_ENTRIES = (MANIFEST, "manifest")
_LOCKS = (MANIFEST, "locks")
_ENTRY_BYTES = 64 * 1024  # two versions of a key of 800 bytes take less than 3 KB


@dataclass(frozen=True, slots=True)
class Version:
    """A file that was saved, and how to recognise it without reading it."""

    saved: SavedFile
    mtime_ns: int

    def is_like(self, found: os.stat_result) -> bool:
        return self.saved.size == found.st_size and self.mtime_ns == found.st_mtime_ns


class Manifest:
    """The entries of one folder."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    @contextmanager
    def lock_key(self, key: str) -> Iterator[None]:
        """No other thread or process changes the key meanwhile."""
        with self._tree.place((*_LOCKS, _digest(key)[:2]), make=True) as place:
            handle = place.open_lock()
        try:
            lock(handle)
            yield
        finally:
            os.close(handle)

    def versions(self, key: str) -> tuple[Version, ...]:
        """Newest first; none for a file that Penstock did not save."""
        try:
            with self._tree.place(_entry(key)) as place:
                return _parse_entry(self._path_text(_entry(key)), _content(place))
        except FileNotFoundError:
            return ()

    def write(self, key: str, versions: tuple[Version, ...]) -> None:
        """Replaces the key's entry. It is on the disk when this returns."""
        form = {"key": key, "versions": [_form(version) for version in versions]}
        with stage_file(self._tree) as file:
            file.write(orjson.dumps(form, option=orjson.OPT_APPEND_NEWLINE))
            file.sync()
            with self._tree.place(_entry(key), make=True) as place:
                file.rename_to(place)

    def has(self, key: str) -> bool:
        try:
            with self._tree.place(_entry(key)) as place:
                place.stat()
        except FileNotFoundError:
            return False
        return True

    def forget(self, key: str) -> None:
        with suppress(FileNotFoundError), self._tree.place(_entry(key)) as place:
            place.remove()

    def newest(self) -> Iterator[tuple[str, Version]]:
        """Every key that has an entry, with its newest version; in no order."""
        for parts, _ in self._tree.files(_ENTRIES):
            try:
                with self._tree.place(parts) as place:
                    versions = _parse_entry(self._path_text(parts), _content(place))
            except FileNotFoundError:
                continue
            yield versions[0].saved.key, versions[0]

    def _path_text(self, parts: tuple[str, ...]) -> str:
        return str(self._tree.root.joinpath(*parts))


def version_of(
    versions: tuple[Version, ...], found: os.stat_result, content_hash: Callable[[], str]
) -> tuple[Version | None, bool]:
    """The version that a file is, and whether size and time were enough to tell (2). The newest if it is none."""
    for version in versions:
        if version.is_like(found):
            return version, True
    sized = [version for version in versions if version.saved.size == found.st_size]
    if len(sized) < 2:
        return (sized or versions or (None,))[0], False
    digest = content_hash()
    return next((version for version in sized if version.saved.sha256 == digest), versions[0]), False


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _entry(key: str) -> tuple[str, ...]:
    digest = _digest(key)
    return (*_ENTRIES, digest[:2], f"{digest}.json")


def _form(version: Version) -> dict[str, Any]:
    form = asdict(version.saved) | {"mtime_ns": version.mtime_ns}
    del form["key"]
    return form


def _parse_entry(file: str, content: bytes) -> tuple[Version, ...]:
    try:
        form = orjson.loads(content)
        key, versions = form["key"], form["versions"]
        parsed = tuple(Version(SavedFile.parse({**one, "key": key}), int(one["mtime_ns"])) for one in versions)
        if not parsed:
            raise ValueError("no versions")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"it is no entry of a manifest ({error})"
        raise FileError(file, reason, "Remove it, then save the file that it was for again") from None
    return parsed


def _content(place: Place) -> bytes:
    handle = place.open()
    try:
        return os.read(handle, _ENTRY_BYTES)
    finally:
        os.close(handle)
