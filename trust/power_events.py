"""What a process did to files, from strace's account of it.

`strace -f -xx -s …` writes a line for each call, strings in hex; a call during which another thread made one is split
into `<unfinished ...>` and `<... resumed>`. A write counts from its end on, a sync covers what had ended when it began.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

CALLS = ("openat", "close", "pwrite64", "write", "ftruncate", "fsync", "fdatasync", "unlink")


@dataclass(frozen=True, slots=True)
class Made:
    """A file that was not there has a name now."""

    path: str


@dataclass(frozen=True, slots=True)
class Written:
    path: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """A file was cut, or lengthened, to so many bytes."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class SyncBegun:
    """Of a file, or of a folder: then of its names."""

    path: str
    number: int


@dataclass(frozen=True, slots=True)
class Synced:
    """The sync of this number has ended: what was done before it began is on the disk."""

    number: int


@dataclass(frozen=True, slots=True)
class Unlinked:
    path: str


@dataclass(frozen=True, slots=True)
class Said:
    """A line on standard output: what the process acknowledged to somebody else."""

    text: str


Event = Made | Written | Cut | SyncBegun | Synced | Unlinked | Said

_LINE = re.compile(r"^(\d+) +(.*)$")
_CALL = re.compile(r"^(\w+)\((.*)\) += +(-?\d+|\?)")
_RESUMED = re.compile(r"^<\.\.\. (\w+) resumed>(.*)$")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_UNFINISHED = "<unfinished ...>"
_SYNCS = ("fsync", "fdatasync")


class _Reader:
    def __init__(self, known: Iterable[str]) -> None:
        self._files: dict[int, str] = {}
        self._there = set(known)
        self._begun: dict[str, str] = {}
        self._syncs: dict[str, int] = {}
        self._number = 0

    def read(self, line: str) -> Iterator[Event]:
        match = _LINE.match(line)
        if match is None:
            return
        thread, text = match.groups()
        if text.endswith(_UNFINISHED):
            self._begun[thread] = text.removesuffix(_UNFINISHED).rstrip()
            yield from self._begin_sync(thread, text)
            return
        resumed = _RESUMED.match(text)
        if resumed is not None:
            text = self._begun.pop(thread, "") + resumed.group(2)
        else:
            yield from self._begin_sync(thread, text)
        yield from self._ended(thread, text)

    def _begin_sync(self, thread: str, text: str) -> Iterator[Event]:
        name, _, rest = text.partition("(")
        if name in _SYNCS:
            path = self._files.get(int(re.match(r"\d+", rest).group()))  # type: ignore[union-attr]
            if path is not None:
                self._number += 1
                self._syncs[thread] = self._number
                yield SyncBegun(path, self._number)

    def _ended(self, thread: str, text: str) -> Iterator[Event]:
        match = _CALL.match(text)
        if match is None or match.group(3) == "?" or int(match.group(3)) < 0:
            return
        name, arguments, result = match.group(1), match.group(2), int(match.group(3))
        if name in _SYNCS:
            if thread in self._syncs:
                yield Synced(self._syncs.pop(thread))
        elif name == "openat":
            yield from self._opened(arguments, result)
        elif name == "close":
            self._files.pop(int(arguments), None)
        elif name == "unlink":
            path = _text(arguments).decode()
            self._there.discard(path)
            yield Unlinked(path)
        else:
            yield from self._changed(name, arguments, result)

    def _opened(self, arguments: str, result: int) -> Iterator[Event]:
        path = _text(arguments).decode(errors="replace")
        self._files[result] = path
        if "O_CREAT" in arguments and path not in self._there:
            self._there.add(path)
            yield Made(path)

    def _changed(self, name: str, arguments: str, result: int) -> Iterator[Event]:
        descriptor = int(arguments.partition(",")[0])
        path = self._files.get(descriptor)
        if name == "write" and descriptor == 1:
            yield from (Said(line) for line in _text(arguments).decode().splitlines())
        elif path is None:
            return
        elif name == "ftruncate":
            yield Cut(path, int(arguments.rpartition(",")[2]))
        elif name == "pwrite64":
            yield Written(path, int(arguments.rpartition(",")[2]), _text(arguments)[:result])


def _text(arguments: str) -> bytes:
    match = _TEXT.search(arguments)
    assert match is not None, arguments[:80]
    return bytes.fromhex(match.group(1).replace("\\x", ""))


def events(lines: Iterable[str], known: Iterable[str]) -> Iterator[Event]:
    """The events of an account; `known` are the paths of files that were there before it."""
    reader = _Reader(known)
    for line in lines:
        yield from reader.read(line)
