"""The files in which the clients of `trust.linearizable` write what they do, and how they are read.

A line is written before a call and one after its answer, straight to the file: of a client that is killed, all calls
are known, and the last one has no end. Files are JSON, a list a line.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.testing.item_model import ANY, Action, Add, Call, Change, Check, Delete, Get, Put, Result, Wanted
from penstock.testing.linearizability import Operation
from trust.linearizable_calls import ONE_MOMENT, PER_ITEM, READS

_ACTIONS: dict[str, type[Action]] = {"put": Put, "delete": Delete, "add": Add, "check": Check}
_NAMES = {kind: name for name, kind in _ACTIONS.items()}


class Recorder:
    """One client process's file. Safe to share between threads."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def begin(self, who: str, kind: str, call: Call) -> int:
        number = next(self._numbers)
        self._write(["begin", number, time.monotonic_ns(), who, kind, _written(call)])
        return number

    def end(self, number: int, ended: int, result: Result) -> None:
        self._write(["end", number, ended, result.done, [_optional(value) for value in result.values]])

    def without_effect(self, number: int) -> None:
        self._write(["nothing", number])

    def odd(self, number: int, text: str) -> None:
        self._write(["odd", number, text])

    def _write(self, line: list[Any]) -> None:
        data = json.dumps(line).encode() + b"\n"
        with self._lock:
            os.write(self._file, data)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One call as its client saw it."""

    kind: str
    operation: Operation[Call, Result]


@dataclass(frozen=True)
class History:
    calls: list[Recorded]
    odd: list[str]
    """Errors that no call here may have."""

    @property
    def unknown(self) -> int:
        return sum(one.operation.ended is None for one in self.calls)


def read(files: Iterable[Path]) -> History:
    history = History([], [])
    for path in files:
        _read_one(path, history)
    return history


def _read_one(path: Path, history: History) -> None:
    begun: dict[int, Recorded] = {}
    for line in path.read_text().splitlines():
        try:
            what, number, *rest = json.loads(line)
        except ValueError:
            continue  # half a line: its writer was killed, and had not called yet or keeps the call unknown
        if what == "begin":
            at, who, kind, call = rest
            begun[number] = Recorded(kind, Operation(f"{who} {kind}", _call(call), at))
            continue
        recorded = begun.pop(number)
        if what == "odd":
            history.odd.append(f"{recorded.operation.who}: {recorded.operation.call}: {rest[0]}")
        elif what == "end":
            ended, is_done, values = rest
            result = Result(is_done, tuple(ANY if not value else value[0] for value in values))
            one = recorded.operation
            history.calls.append(Recorded(recorded.kind, Operation(one.who, one.call, one.began, ended, result)))
    history.calls.extend(begun.values())


def as_one_moment(calls: Iterable[Recorded]) -> Iterator[Operation[Call, Result]]:
    """Every call as if all of it had happened at one moment: what Penstock gives."""
    return (one.operation for one in calls if not _is_lost_read(one))


def as_promised(calls: Iterable[Recorded]) -> Iterator[Operation[Call, Result]]:
    """What DynamoDB promises: calls of many items are many calls, unless they are transactions; the reads that are
    eventually consistent are left out."""
    for one in calls:
        if one.kind in PER_ITEM:
            yield from _apart(one.operation)
        elif (one.kind not in READS or one.kind in ONE_MOMENT) and not _is_lost_read(one):
            yield one.operation


def _apart(one: Operation[Call, Result]) -> Iterator[Operation[Call, Result]]:
    for place, key in enumerate(one.call.keys):
        call = Get((key,)) if isinstance(one.call, Get) else Change((one.call.actions[place],))
        result = None if one.result is None else Result(one.result.done, (one.result.values[place],))
        yield Operation(one.who, call, one.began, one.ended, result)


def _is_lost_read(one: Recorded) -> bool:
    return one.operation.ended is None and isinstance(one.operation.call, Get)


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────


def _written(call: Call) -> list[Any]:
    if isinstance(call, Get):
        return ["get", *call.keys]
    return ["change", *(_written_action(action) for action in call.actions)]


def _written_action(action: Action) -> list[Any]:
    value = action.value if isinstance(action, Put) else action.amount if isinstance(action, Add) else None
    return [_NAMES[type(action)], action.key, value, _optional(action.expected)]


def _call(written: list[Any]) -> Call:
    what, *parts = written
    return Get(tuple(parts)) if what == "get" else Change(tuple(map(_action, parts)))


def _action(written: list[Any]) -> Action:
    name, key, value, optional = written
    expected: Wanted = optional[0] if optional else ANY
    if name == "put":
        return Put(key, value, expected)
    if name == "add":
        return Add(key, value, expected)
    return Delete(key, expected) if name == "delete" else Check(key, expected)


def _optional(value: Wanted) -> list[Any]:
    return [] if value is ANY else [value]
