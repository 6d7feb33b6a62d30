"""The servers that job systems stand on: a Redis and a PostgreSQL of our own, on loopback, in temporary folders."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.servers import START_SECONDS, free_port, stop

REDIS_DATABASES = 512
# As much as the others promise: what is acknowledged survives a killed process, not a power cut.
POSTGRES_SETTINGS = ("synchronous_commit=off", "max_connections=200", "listen_addresses=127.0.0.1")
POSTGRES_FOLDERS = "/usr/lib/postgresql/*/bin"  # Debian's, which are not on PATH
POSTGRES_USER = "postgres"  # the server does not run as root


@dataclass
class Store:
    """A running server that gives every system a database of its own."""

    title: str
    port: int
    pid: int
    used: int = 0

    def fresh(self) -> str:
        """The address of a database that nobody has used."""
        raise NotImplementedError


class Redis(Store):
    def fresh(self) -> str:
        self.used += 1
        assert self.used < REDIS_DATABASES
        return f"redis://127.0.0.1:{self.port}/{self.used}"


class Postgres(Store):
    def fresh(self) -> str:
        self.used += 1
        words = ["--host", "127.0.0.1", "--port", str(self.port), "--username", "bench", f"bench{self.used}"]
        subprocess.run([_postgres_program("createdb"), *words], check=True, capture_output=True)
        return f"postgresql://bench@127.0.0.1:{self.port}/bench{self.used}"


@contextmanager
def stores() -> Iterator[dict[str, Store]]:
    """Those of `redis` and `postgres` that are installed, running; ended afterwards."""
    with contextlib.ExitStack() as stack:
        running: dict[str, Store] = {}
        if shutil.which("redis-server"):
            running["redis"] = stack.enter_context(_redis())
        if _postgres_program("postgres"):
            running["postgres"] = stack.enter_context(_postgres())
        yield running


@contextmanager
def _redis() -> Iterator[Redis]:
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", place]
        words += ["--save", "", "--appendonly", "no", "--databases", str(REDIS_DATABASES)]
        with _answering(words, port, Path(place), None) as pid:
            yield Redis(f"Redis {_version(['redis-server', '--version'])}, saving nothing", port, pid)


@contextmanager
def _postgres() -> Iterator[Postgres]:
    port = free_port()
    user = POSTGRES_USER if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        if user:
            shutil.chown(place, user)
        initdb = [_postgres_program("initdb"), "--pgdata", f"{place}/data", "--username", "bench", "--auth", "trust"]
        subprocess.run(initdb, check=True, capture_output=True, user=user, cwd=place)
        words = [_postgres_program("postgres"), "-D", f"{place}/data", "-p", str(port), "-k", place]
        words += [word for setting in POSTGRES_SETTINGS for word in ("-c", setting)]
        with _answering(words, port, Path(place), user) as pid:
            told = _version([_postgres_program("postgres"), "--version"])
            yield Postgres(f"PostgreSQL {told}, {POSTGRES_SETTINGS[0]}", port, pid)


@contextmanager
def _answering(words: list[str], port: int, place: Path, user: str | None) -> Iterator[int]:
    """The server's process id, once it accepts connections."""
    log = place / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            user=user,
            cwd=place,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _accepts(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{words[0]} did not start: {log.read_text()[-1000:]}")
            time.sleep(0.02)
        yield process.pid
    finally:
        stop(process)


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _postgres_program(name: str) -> str:
    """Where a program of PostgreSQL is; empty where it is not."""
    folders = sorted(Path("/").glob(POSTGRES_FOLDERS.lstrip("/")))
    return shutil.which(name, path=os.pathsep.join(map(str, [*reversed(folders), os.environ.get("PATH", "")]))) or ""


def _version(words: list[str]) -> str:
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    match = re.search(r"\d+(\.\d+)+", told)
    return match[0] if match else "unknown"
