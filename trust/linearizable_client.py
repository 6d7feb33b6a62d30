"""A client of `trust.linearizable`: threads that call a few hot items as fast as they can, and write down all of it.

python -m trust.linearizable_client URL FILE NAME THREADS CALLS SEED SYNC BREAK

It prints a line when it is ready, and then reads until when to call, in nanoseconds of the shared clock. A thread makes
at most CALLS calls; 0 is any number.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from penstock.client.database import open_transport
from penstock.client.transports.base import Limits, Transport
from penstock.engine.settings import Settings
from penstock.errors import PenstockError, ResourceInUseException
from penstock.testing.item_model import ANY, Action, Add, Call, Change, Check, Delete, Get, Put, Result, Value, Wanted
from trust.linearizable_broken import broken
from trust.linearizable_calls import NoEffect, refusal_of, request_of, result_of, tables
from trust.linearizable_history import Recorder

REGISTERS = ("plain/r1/-", "plain/r2/-", "indexed/r3/-")
COUNTERS = ("plain/n1/-", "indexed/n2/-")
GROUPS = (tuple(f"plain/a/{n}" for n in range(3)), tuple(f"indexed/b/{n}" for n in range(3)))
EVERY_KEY = (*REGISTERS, *COUNTERS, *GROUPS[0], *GROUPS[1])

_AWAY_SECONDS = 0.02
"""Before another try where nobody answers."""


def opened(url: str, sync: str) -> Transport:
    """Without retries: a call that is sent twice may take effect twice, which is no fault of the database's."""
    limits = Limits(read_seconds=10.0, connect_seconds=2.0)
    if url.startswith("http"):
        return open_transport(url, limits=limits)
    return open_transport(url, settings=Settings(synchronous="full" if sync == "full" else "normal"))


def make_tables(transport: Transport) -> None:
    for table in tables():
        with suppress(ResourceInUseException):  # another client was quicker
            transport.execute("CreateTable", table)


class Client:
    """One thread's calls: drawn, made, recorded."""

    def __init__(self, name: str, transport: Transport, recorder: Recorder, draw: random.Random) -> None:
        self.name = name
        self._transport = transport
        self._recorder = recorder
        self._draw = draw
        self._written = 0
        self._seen: dict[str, Value] = {}

    def run(self, until: int, calls: int) -> None:
        made = 0
        while time.monotonic_ns() < until and (made < calls or not calls):
            self.make(*self._drawn())
            made += 1

    def read_everything(self) -> None:
        """What there is in the end, so that nothing acknowledged can be missing."""
        for key in EVERY_KEY:
            self.make("GetItem", Get((key,)))

    def make(self, kind: str, call: Call) -> None:
        operation, request = request_of(kind, call)
        number = self._recorder.begin(self.name, kind, call)
        try:
            result: Result | None = result_of(kind, call, self._transport.execute(operation, request))
            ended = time.monotonic_ns()
        except PenstockError as error:
            ended = time.monotonic_ns()
            result = self._told_by(error, number, kind, call)
        if result is not None:
            self._recorder.end(number, ended, result)
            self._remember(call, result)

    def _told_by(self, error: PenstockError, number: int, kind: str, call: Call) -> Result | None:
        try:
            result = refusal_of(kind, call, error)
        except NoEffect:
            self._recorder.without_effect(number)
            result = None
        except PenstockError as odd:
            self._recorder.odd(number, f"{type(odd).__name__}: {odd}")
            return None
        if result is None:
            time.sleep(_AWAY_SECONDS)
        return result

    def _remember(self, call: Call, result: Result) -> None:
        for place, key in enumerate(call.keys):
            value = result.values[place]
            if isinstance(call, Change) and result.done:
                action = call.actions[place]
                value = action.value if isinstance(action, Put) else ANY
            if value is not ANY:
                self._seen[key] = value

    # ── what to do next ──────────────────────────────────────────────────────────────────────────

    def _drawn(self) -> tuple[str, Call]:
        draw = self._draw
        match draw.randrange(10):
            case 0 | 1 | 2:
                return self._one(draw.choice(REGISTERS))
            case 3 | 4:
                return self._counted(draw.choice(COUNTERS))
            case 5 | 6 | 7:
                return self._together(draw.choice(GROUPS))
            case _:
                return self._one(draw.choice(draw.choice(GROUPS)))

    def _one(self, key: str) -> tuple[str, Call]:
        match self._draw.randrange(8):
            case 0:
                return "PutItem", Change((Put(key, self._new()),))
            case 1 | 2:
                return "PutItem", Change((Put(key, self._new(), self._seen.get(key)),))
            case 3:
                return "DeleteItem", Change((Delete(key, self._seen.get(key) or "?"),))
            case 4 if self._seen.get(key) is not None:
                return "PartiQL", Change((Put(key, self._new(), self._seen[key]),))
            case 5:
                return "GetItem", Get((key,))
            case 6:
                return "PartiQL", Get((key,))
            case _:
                return "GetItem eventually", Get((key,))

    def _counted(self, key: str) -> tuple[str, Call]:
        match self._draw.randrange(5):
            case 0:
                return "GetItem", Get((key,))
            case 1:
                return "GetItem eventually", Get((key,))
            case 2:
                return "UpdateItem", Change((Add(key, self._draw.randint(1, 3), self._seen.get(key)),))
            case _:
                return "UpdateItem", Change((Add(key, 1),))

    def _together(self, group: tuple[str, ...]) -> tuple[str, Call]:
        kinds = ["TransactGetItems", "Query", "Scan", "BatchGetItem"]
        if group[0].startswith("indexed/"):
            kinds.append("Query index")
        match self._draw.randrange(5):
            case 0 | 1:
                return self._draw.choice(kinds), Get(group)
            case 2:
                chosen = self._draw.sample(group, 2)
                return "BatchWriteItem", Change(tuple(Put(key, self._new()) for key in chosen))
            case _:
                chosen = self._draw.sample(group, self._draw.randint(2, 3))
                return "TransactWriteItems", Change(tuple(map(self._action, chosen)))

    def _action(self, key: str) -> Action:
        expected: Wanted = self._draw.choice([ANY, ANY, self._seen.get(key)])
        match self._draw.randrange(6):
            case 0:
                return Delete(key, expected)
            case 1:
                return Check(key, self._seen.get(key))
            case _:
                return Put(key, self._new(), expected)

    def _new(self) -> str:
        """A value that nobody else writes: who reads it knows whose write it has seen."""
        self._written += 1
        return f"{self.name}.{self._written}"


def main() -> None:
    url, path, name, threads, calls, seed, sync, how = sys.argv[1:]
    recorder = Recorder(Path(path))
    transport = broken(opened(url, sync), how, random.Random(f"{seed}:{name}:{how}"))
    clients = [
        Client(f"{name}{chr(ord('a') + n)}", transport, recorder, random.Random(f"{seed}:{name}:{n}"))
        for n in range(int(threads))
    ]
    make_tables(transport)
    print("ready", flush=True)
    until = int(sys.stdin.readline())
    running = [threading.Thread(target=client.run, args=(until, int(calls))) for client in clients]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    clients[0].read_everything()
    transport.close()


if __name__ == "__main__":
    main()
