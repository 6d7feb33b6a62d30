"""What a disk may hold after a power cut.

1. What was done before a sync that has ended began is there. Of what came later, each write is there, is not, or is
   there in some of its sectors of 512 bytes, whatever was written after it.
2. A file's name, and the end of its name, are on the disk when its folder was synced; before that it may be so or not.
3. What was on the disk before the recording began is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from random import Random

from trust.power_events import Cut, Event, Made, Said, SyncBegun, Synced, Unlinked, Written

SECTOR = 512
Files = dict[str, bytes]


@dataclass(slots=True)
class _File:
    """One file's bytes that are certain, and what was done to it since."""

    certain: bytearray = field(default_factory=bytearray)
    since: list[Written | Cut] = field(default_factory=list)

    def settle(self, count: int) -> None:
        """So many of the changes are now certain."""
        for change in self.since[:count]:
            _apply(self.certain, change)
        del self.since[:count]


@dataclass(slots=True)
class _Name:
    """What a name may lead to: the last of these, or an earlier one where the folder was not synced since."""

    files: list[_File | None]


class Disk:
    """Follows the events; `states` says what a cut at this moment may leave."""

    def __init__(self, start: Files) -> None:
        self._names = {path: _Name([_File(bytearray(data))]) for path, data in start.items()}
        self._syncs: dict[int, tuple[str, _File | None, int, dict[str, int]]] = {}
        self.said: list[str] = []

    def follow(self, event: Event) -> None:
        match event:
            case Made(path):
                self._named(path).files.append(_File())
            case Unlinked(path):
                self._named(path).files.append(None)
            case Written(path) | Cut(path):
                file = self._named(path).files[-1]
                if file is not None:
                    file.since.append(event)
            case SyncBegun(path, number):
                self._begin(path, number)
            case Synced(number):
                self._end(number)
            case Said(text):
                self.said.append(text)

    def state(self, random: Random) -> Files:
        """One of the states that a cut at this moment may leave."""
        found: Files = {}
        share = random.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for path, name in self._names.items():
            file = random.choice(name.files)
            if file is not None:
                found[path] = bytes(_left(file, random, share))
        return found

    def _named(self, path: str) -> _Name:
        return self._names.setdefault(path, _Name([None]))

    def _begin(self, path: str, number: int) -> None:
        if path in self._names:
            file = self._names[path].files[-1]
            self._syncs[number] = path, file, len(file.since) if file is not None else 0, {}
            return
        inside = {one: len(name.files) for one, name in self._names.items() if _folder(one) == path}
        self._syncs[number] = path, None, 0, inside

    def _end(self, number: int) -> None:
        _, file, count, names = self._syncs.pop(number)
        if file is not None:
            file.settle(count)
            # The changes of a sync that began earlier and ends later are fewer now.
            for other, (path, same, before, inside) in self._syncs.items():
                if same is file:
                    self._syncs[other] = path, same, max(0, before - count), inside
        for path, seen in names.items():
            del self._names[path].files[: seen - 1]


def _folder(path: str) -> str:
    return str(PurePosixPath(path).parent)


def _left(file: _File, random: Random, share: float) -> bytearray:
    data = bytearray(file.certain)
    for change in file.since:
        if random.random() >= share:
            continue
        if isinstance(change, Written) and random.random() < 0.2:
            for part in _sectors(change):
                if random.random() < 0.5:
                    _apply(data, part)
        else:
            _apply(data, change)
    return data


def _sectors(change: Written) -> Iterator[Written]:
    """The parts of a write that lie in one sector each."""
    place = 0
    while place < len(change.data):
        offset = change.offset + place
        size = min(SECTOR - offset % SECTOR, len(change.data) - place)
        yield Written(change.path, offset, change.data[place : place + size])
        place += size


def _apply(data: bytearray, change: Written | Cut) -> None:
    if isinstance(change, Cut):
        if change.size < len(data):
            del data[change.size :]
        else:
            data.extend(bytes(change.size - len(data)))
        return
    if len(data) < change.offset:
        data.extend(bytes(change.offset - len(data)))
    data[change.offset : change.offset + len(change.data)] = change.data


def cuts(start: Files, happened: Iterable[Event], wanted: set[int]) -> Iterator[tuple[int, Disk]]:
    """The disk as it is after each of the events of these numbers."""
    disk = Disk(start)
    for number, event in enumerate(happened):
        disk.follow(event)
        if number in wanted:
            yield number, disk
