"""Servers under measurement: how each is found, started, asked and stopped."""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.options import Options
from bench.peers import JAVA, Peers
from bench.workload import Json

HOME = re.compile(r"(?:/[^/\s]+)*/([^/\s]*)")
START_SECONDS = 30.0
STOP_SECONDS = 20.0

HEADERS = {
    "Content-Type": "application/x-amz-json-1.0",
    "X-Amz-Date": "20260101T000000Z",
    "Authorization": (
        "AWS4-HMAC-SHA256 Credential=bench/20260101/us-east-1/dynamodb/aws4_request, "
        "SignedHeaders=host;x-amz-date;x-amz-target, Signature=0"
    ),
}


@dataclass(frozen=True)
class Subject:
    """A server to measure: its command, with {port} and {dir} where those belong."""

    name: str
    command: str
    keeps: str = "unknown"

    def arguments(self, port: int, directory: Path) -> tuple[dict[str, str], list[str]]:
        """The environment that the command's leading NAME=value words set, and its words."""
        words = [word.format(port=port, dir=directory) for word in shlex.split(self.command)]
        settings: dict[str, str] = {}
        while words and "=" in words[0] and words[0].split("=")[0].isidentifier():
            name, _, value = words.pop(0).partition("=")
            settings[name] = value
        return settings, words

    def shown(self) -> str:
        """The command without the places where this machine keeps things."""
        words = shlex.split(self.command)
        return " ".join(word if "{dir}" in word else HOME.sub(r"\1", word) for word in words)


@dataclass(frozen=True)
class Known:
    """A peer that can be found: the program to look for, and the command that runs it."""

    program: str
    command: str
    keeps: str


KNOWN_PEERS: Mapping[str, Known] = {
    "dynoxide": Known(
        "dynoxide",
        "{program} serve --host 127.0.0.1 --port {{port}} --db-path {{dir}}/dynoxide.db",
        "SQLite file, syncs every commit",
    ),
    "dynalite": Known(
        "dynalite",
        "{program} --host 127.0.0.1 --port {{port}} --path {{dir}} --createTableMs 0",
        "LevelDB files, no sync",
    ),
    "ministack": Known(
        "ministack",
        "GATEWAY_PORT={{port}} BIND_HOST=127.0.0.1 SERVICES=dynamodb LOG_LEVEL=WARNING {program}",
        "memory",
    ),
    "moto": Known("moto_server", "{program} -H 127.0.0.1 -p {{port}}", "memory"),
    "dynamodb-local": Known(
        "dynamodb-local",
        "{program} -port {{port}} -dbPath {{dir}} -sharedDb -disableTelemetry",
        "SQLite file",
    ),
}


def environment_name(peer: str) -> str:
    """The variable that gives a peer's command."""
    return "PENSTOCK_BENCH_" + peer.upper().replace("-", "_")


def penstock(*, sync: str | None = None, memory: bool = False) -> Subject:
    """Our own server, from the same environment as this interpreter."""
    program = Path(sys.executable).with_name("penstock")
    where = "--memory" if memory else "--db {dir}/penstock.db"
    mode = f" --sync {sync}" if sync else ""
    keeps = "memory" if memory else f"SQLite file, {'syncs every commit' if sync == 'full' else 'no sync'}"
    return Subject("penstock", f"{program} serve {where} --port {{port}}{mode}", keeps)


def find_peers(options: Options) -> tuple[list[Subject], list[str]]:
    """The peers that can be run and are wanted, and the names of those that are not there."""
    found, missing = [], []
    for name, known in KNOWN_PEERS.items():
        if not options.wants(name):
            continue
        command = _command(name, known, options.peers)
        if command is None:
            missing.append(name)
        else:
            found.append(Subject(name, command, known.keeps))
    others = {name: command for name, command in options.peers.commands.items() if name not in KNOWN_PEERS}
    return [*found, *(Subject(name, command) for name, command in others.items())], missing


def _command(name: str, known: Known, peers: Peers) -> str | None:
    """A command on the command line wins over one in the environment, that over the folder, that over PATH."""
    given = peers.commands.get(name) or os.environ.get(environment_name(name))
    if given:
        return given
    place = peers.place(name)
    if place and name == "dynamodb-local":
        return JAVA.format(libs=place)
    program = str(place) if place else shutil.which(known.program)
    return known.command.format(program=program) if program else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Server:
    """A running server."""

    subject: Subject
    port: int
    process: subprocess.Popen[bytes]
    ready_seconds: float = 0.0
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def execute(self, operation: str, request: Json) -> Json:
        """DynamoDB's answer over HTTP; anything but 200 raises."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {**HEADERS, "X-Amz-Target": f"DynamoDB_20120810.{operation}"}
        try:
            self._connection.request("POST", "/", json.dumps(request), headers)
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            self._connection = None
            raise
        if response.status != 200:
            raise RuntimeError(f"{self.subject.name} answered {operation} with {response.status}: {body[:300]!r}")
        answer: Json = json.loads(body)
        return answer

    def cpu_seconds(self) -> float:
        """What the process and its living children have computed so far."""
        return sum(map(cpu_seconds_of, family(self.process.pid)))

    def memory(self) -> dict[str, int]:
        """Resident bytes of the process and its children: now, and at its highest."""
        totals = {"VmRSS": 0, "VmHWM": 0}
        for pid in family(self.process.pid):
            for name, size in memory_of(pid).items():
                totals[name] += size
        return totals


def cpu_seconds_of(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> dict[str, int]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    fields = (line.split() for line in lines if line.startswith(("VmRSS:", "VmHWM:")))
    return {name.rstrip(":"): int(size) * 1024 for name, size, _ in fields}


def family(pid: int) -> list[int]:
    """A process and all that it started."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        text = ""
    return [pid, *(one for child in text.split() for one in family(int(child)))]


@contextmanager
def running(subject: Subject, directory: Path) -> Iterator[Server]:
    """The server, started and answering; stopped at the end, whatever happened."""
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    settings, words = subject.arguments(port, directory)
    log = directory / "server.log"
    with log.open("wb") as output:
        begun = time.perf_counter()
        process = subprocess.Popen(
            words,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **settings},
            start_new_session=True,
        )
    server = Server(subject, port, process)
    try:
        _wait_until_it_answers(server, log)
        server.ready_seconds = time.perf_counter() - begun
        yield server
    finally:
        stop(process)


def _wait_until_it_answers(server: Server, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            raise RuntimeError(f"{server.subject.name} did not start: {log.read_text()[-2000:]}")
        try:
            server.execute("ListTables", {})
            return
        except (OSError, http.client.HTTPException):
            time.sleep(0.002)
    raise RuntimeError(f"{server.subject.name} was not ready after {START_SECONDS:.0f} s")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the server and what it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(STOP_SECONDS)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def version(subject: Subject) -> str:
    """What the program says it is; a package's metadata where it says nothing."""
    _, words = subject.arguments(0, Path())
    program = Path(shutil.which(words[0]) or words[0]).resolve()
    for candidate in (_package_json_version, _cargo_version, _jar_version, _interpreter_version, _asked_version):
        text = candidate(subject.name, program, words)
        if text:
            return text
    return "unknown"


def _package_json_version(_: str, program: Path, words: list[str]) -> str | None:
    """npm packages: the package.json beside the script."""
    for word in (program, *map(Path, words[1:2])):
        for parent in list(word.resolve().parents)[:3]:
            described = parent / "package.json"
            if described.is_file():
                return str(json.loads(described.read_text()).get("version"))
    return None


def _cargo_version(_: str, program: Path, __: list[str]) -> str | None:
    """cargo install: its list of what it installed, beside bin/."""
    installed = program.parent.parent / ".crates.toml"
    text = installed.read_text() if installed.is_file() else ""
    match = re.search(rf'"(\S+) (\S+) [^"]*" = \[[^]]*"{re.escape(program.name)}"', text)
    return f"{match[1]} {match[2]}" if match else None


def _jar_version(_: str, __: Path, words: list[str]) -> str | None:
    """DynamoDB Local from Maven: the version in its jar's name, in a folder of the class path."""
    folders = (Path(word).parent for word in words if word.endswith("/*"))
    jars = [jar.stem for folder in folders for jar in folder.glob("DynamoDBLocal-*.jar")]
    return jars[0].removeprefix("DynamoDBLocal-") if jars else None


def _interpreter_version(name: str, program: Path, _: list[str]) -> str | None:
    """pip packages: ask the interpreter of the script's first line."""
    try:
        first = program.open("rb").readline(300)
    except OSError:
        return None
    if not first.startswith(b"#!") or b"python" not in first:
        return None
    question = f"import importlib.metadata as m; print(m.version({name!r}))"
    return _output([first[2:].decode().strip(), "-c", question])


def _asked_version(_: str, program: Path, __: list[str]) -> str | None:
    return _output([str(program), "--version"])


def _output(words: list[str]) -> str | None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else None


def describe(subjects: list[Subject]) -> list[dict[str, Any]]:
    return [{"name": one.name, "version": version(one), "keeps": one.keeps, "command": one.shown()} for one in subjects]
