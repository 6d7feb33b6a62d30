"""The processes of `trust.linearizable`: clients, perhaps a server, and whoever kills them."""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parent.parent
_STOP_SECONDS = 60.0
_KILL_EVERY_SECONDS = (0.3, 1.5)


class World:
    """Runs the clients until their time is over; a context manager that leaves no process behind."""

    def __init__(self, folder: Path, options: argparse.Namespace, client: str = "trust.linearizable_client") -> None:
        self.kills: Counter[str] = Counter()
        self.troubles: list[str] = []
        self.ends: list[tuple[str, int, int]] = []
        """The names of clients that were killed, when that began and when they were gone, by the clients' clock."""
        self._client = client
        self._folder = folder
        self._options = options
        self._draw = random.Random(f"{options.seed}:kills")
        self._names = 0
        self._name_of: dict[int, str] = {}
        self._clients: list[subprocess.Popen[str]] = []
        self._server: subprocess.Popen[str] | None = None
        self._until = 0.0

    def __enter__(self) -> World:
        if self._options.http:
            self._serve("0")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        processes = [*self._clients] if self._server is None else [*self._clients, self._server]
        for process in processes:
            _kill(process)

    def run(self) -> None:
        for _ in range(self._options.processes):
            self._start_client()
        self._until = time.monotonic() + self._options.seconds
        for client in self._clients:
            self._let_go(client)
        while self._options.kill and time.monotonic() < self._until - 0.5:
            time.sleep(self._draw.uniform(*_KILL_EVERY_SECONDS))
            self._kill_somebody()
        for client in self._clients:
            self._await(client)

    def _await(self, client: subprocess.Popen[str]) -> None:
        try:
            code = client.wait(max(0.0, self._until - time.monotonic()) + _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.troubles.append(f"client {client.pid} did not end: a call hangs")
        else:
            if code:
                self.troubles.append(f"client {client.pid} ended with {code}: its error is above")

    @property
    def _url(self) -> str:
        if self._options.endpoint:
            return str(self._options.endpoint)
        if self._options.http:
            return f"http://127.0.0.1:{self._port}"
        return ":memory:" if self._options.memory else str(self._folder / "hot.db")

    def _start_client(self) -> subprocess.Popen[str]:
        """A client that has opened the database and waits."""
        self._names += 1
        name = f"p{self._names}"
        broken = self._options.broken or "no"
        values = [self._url, self._folder / f"{name}.history", name, self._options.threads, self._options.calls]
        command = [sys.executable, "-m", self._client, *values, self._options.seed]
        client = subprocess.Popen(
            [*map(str, command), self._options.sync, broken],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._clients.append(client)
        self._name_of[client.pid] = name
        assert client.stdout is not None
        if not client.stdout.readline():
            raise SystemExit("A client did not start: its error is above.")
        return client

    def _let_go(self, client: subprocess.Popen[str]) -> None:
        assert client.stdin is not None
        with suppress(BrokenPipeError):  # it has ended: its code tells
            client.stdin.write(f"{round(self._until * 1e9)}\n")
            client.stdin.flush()

    def _serve(self, port: str) -> None:
        where = ["--memory"] if self._options.memory else ["--db", str(self._folder / "hot.db")]
        command = [sys.executable, "-m", "penstock", "serve", *where, "--sync", self._options.sync]
        self._server = subprocess.Popen([*command, "--port", port, "--json"], stdout=subprocess.PIPE, text=True)
        assert self._server.stdout is not None
        self._port = json.loads(self._server.stdout.readline())["url"].rpartition(":")[2]

    def _kill_somebody(self) -> None:
        # What a server keeps in memory is gone with it, and no order explains that.
        if self._server is not None and not self._options.memory and self._draw.random() < 0.5:
            _kill(self._server)
            self.kills["the server"] += 1
            self._serve(self._port)
            return
        victim = self._clients.pop(self._draw.randrange(len(self._clients)))
        began = time.monotonic_ns()
        _kill(victim)
        self.ends.append((self._name_of[victim.pid], began, time.monotonic_ns()))
        self.kills["a client"] += 1
        self._let_go(self._start_client())


def _kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
