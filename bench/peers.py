"""`python -m bench.peers DIR`: installs what Penstock is measured beside, each in a folder of its own under DIR.

    python -m bench.peers DIR                # from PyPI and npm; says how to get the others
    python -m bench.peers DIR --build        # also Dynoxide (cargo, minutes) and DynamoDB Local (Maven)
    python -m bench.peers DIR --only huey    # that one; again and again: what is there is left alone
    python -m bench --peers DIR              # measures beside what is there

Nothing is installed outside DIR. It ends with 1 if something that was tried did not install.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Source = Literal["pip", "npm", "cargo", "maven", "apt"]
DYNAMODB_LOCAL_VERSION = "2.6.1"
INSTALL_SECONDS = 1800

POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId>
  <artifactId>dynamodb-local</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>com.amazonaws</groupId>
      <artifactId>DynamoDBLocal</artifactId>
      <version>{DYNAMODB_LOCAL_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""
JAVA = (
    "java -Djava.library.path={libs} -cp {libs}/* com.amazonaws.services.dynamodbv2.local.main.ServerRunner"
    " -port {{port}} -dbPath {{dir}} -sharedDb -disableTelemetry"
)


@dataclass(frozen=True)
class Peer:
    """Something to be measured beside: what to install, and the file below its folder that shows that it is there."""

    name: str
    source: Source
    packages: tuple[str, ...]
    shows: str
    needed_for: str

    @property
    def how(self) -> str:
        """How to get it, in one line."""
        match self.source:
            case "pip" | "npm":
                return f"`python -m bench.peers DIR --only {self.name}`, then `--peers DIR`"
            case "cargo" | "maven":
                tool = "cargo" if self.source == "cargo" else "Maven and Java 17"
                return f"`python -m bench.peers DIR --build --only {self.name}` (needs {tool}), then `--peers DIR`"
            case "apt":
                return f"`apt install {' '.join(self.packages)}`, or your system's package of that name"


def _environment(name: str, *packages: str, needed_for: str, shows: str = "bin/python") -> Peer:
    return Peer(name, "pip", packages or (name,), shows, needed_for)


ALL: Mapping[str, Peer] = {
    one.name: one
    for one in (
        Peer("dynoxide", "cargo", ("dynoxide-rs",), "bin/dynoxide", "servers"),
        Peer("dynalite", "npm", ("dynalite",), "node_modules/.bin/dynalite", "servers"),
        _environment("ministack", needed_for="servers", shows="bin/ministack"),
        _environment("moto", "moto[dynamodb,server]", needed_for="servers", shows="bin/moto_server"),
        Peer("dynamodb-local", "maven", ("com.amazonaws:DynamoDBLocal",), "libs", "servers"),
        # Without boto3, which our own environment has: aiobotocore pins botocore, and pip would try hundreds of boto3s.
        _environment("clients", "aiobotocore", "aiodynamo", "aiohttp", "pydynox", "pynamodb", needed_for="clients"),
        _environment("huey", needed_for="jobs"),
        _environment("rq", needed_for="jobs"),
        _environment("celery", "celery[redis]", needed_for="jobs"),
        _environment("dramatiq", "dramatiq[redis]", needed_for="jobs"),
        _environment("arq", needed_for="jobs"),
        _environment("procrastinate", "procrastinate", "psycopg[binary]", needed_for="jobs"),
        _environment("dbos", needed_for="jobs"),
        Peer("wrk", "apt", ("wrk",), "", "http, synced, footprint"),
        Peer("redis", "apt", ("redis-server",), "", "jobs"),
        Peer("postgres", "apt", ("postgresql",), "", "jobs"),
    )
}


def how(name: str) -> str:
    """How to get a peer that was not found."""
    known = ALL.get(name)
    return known.how if known else f"give its command: `--peer '{name}=…'`"


@dataclass(frozen=True)
class Peers:
    """Where peers are looked for: the command line, then the environment, then the folder, then PATH."""

    folder: Path | None = None
    commands: Mapping[str, str] = field(default_factory=dict)
    moto_python: str | None = None
    clients_python: str | None = None
    jobs_folder: Path | None = None

    def place(self, name: str) -> Path | None:
        """The file of the folder that shows that a peer was installed there."""
        named = os.environ.get("PENSTOCK_BENCH_PEERS")
        folder = self.folder or (Path(named) if named else None)
        shown = folder.resolve() / name / ALL[name].shows if folder and name in ALL else None
        return shown if shown and shown.exists() else None

    def python(self, name: str) -> str | None:
        """The interpreter of a peer's environment."""
        shown = self.place(name)
        return str(shown.with_name("python")) if shown else None

    def for_moto(self) -> str | None:
        return self.moto_python or os.environ.get("PENSTOCK_BENCH_MOTO_PYTHON") or self.python("moto")

    def for_clients(self) -> str | None:
        return self.clients_python or os.environ.get("PENSTOCK_BENCH_CLIENTS_PYTHON") or self.python("clients")

    def for_jobs(self, package: str) -> str | None:
        named = os.environ.get("PENSTOCK_BENCH_JOBS_PEERS")
        folder = self.jobs_folder or (Path(named) if named else None)
        given = folder / package / "bin" / "python" if folder else None
        return str(given) if given and given.exists() else self.python(package)


# ── installing ───────────────────────────────────────────────────────────────────────────────────


def commands(peer: Peer, place: Path) -> list[list[str]]:
    """What installs a peer into its folder."""
    match peer.source:
        case "pip":
            python = str(place / "bin" / "python")
            return [[sys.executable, "-m", "venv", str(place)], [python, "-m", "pip", "install", "-q", *peer.packages]]
        case "npm":
            return [["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(place), *peer.packages]]
        case "cargo":
            return [["cargo", "install", "--quiet", "--root", str(place), *peer.packages]]
        case "maven":
            pom, libs = str(place / "pom.xml"), str(place / "libs")
            return [["mvn", "-q", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={libs}"]]
        case "apt":
            return [["apt", "install", *peer.packages]]


def install(peer: Peer, folder: Path) -> str | None:
    """None, or why it is not there. What was half installed is removed: it would be taken for whole the next time."""
    place = _place(peer, folder)
    why: str | None = "it was interrupted"
    try:
        why = _installed(peer, place)
    finally:
        if why:
            shutil.rmtree(place, ignore_errors=True)
    return why


def _installed(peer: Peer, place: Path) -> str | None:
    for words in commands(peer, place):
        if shutil.which(words[0]) is None:
            return f"{words[0]} is not on PATH; install it, or run on a machine that has it: {' '.join(words)}"
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return f"not done after {INSTALL_SECONDS // 60} minutes: {' '.join(words)}"
        if done.returncode:
            told = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
            return f"{' '.join(words)} ended with {done.returncode}: {told[-1][:300]}"
    return None if (place / peer.shows).exists() else f"installed, but {place / peer.shows} is not there"


def _place(peer: Peer, folder: Path) -> Path:
    """A peer's folder, with what its installer wants to find there."""
    place = folder.resolve() / peer.name
    place.mkdir(parents=True, exist_ok=True)
    if peer.source == "maven":
        (place / "pom.xml").write_text(POM)
    return place


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--build", action="store_true", help="also what needs cargo or Maven, where those are")
    parser.add_argument("--only", action="append", choices=list(ALL), metavar="NAME", help=", ".join(ALL))
    told = parser.parse_args(arguments)
    found = Peers(folder=told.folder)
    failed = 0
    for peer in (ALL[name] for name in told.only or ALL):
        line = _done(peer, found, told.folder, build=told.build)
        failed += line.startswith("failed")
        sys.stdout.write(f"{peer.name:<15} {line}\n")
        sys.stdout.flush()
    sys.stdout.write(f"\nNow: python -m bench --peers {told.folder}\n")
    return 1 if failed else 0


def _done(peer: Peer, found: Peers, folder: Path, *, build: bool) -> str:
    """What became of one, in a line."""
    if peer.source == "apt":
        return f"from your system: {peer.how}"
    if found.place(peer.name):
        return "is there"
    if peer.source in ("cargo", "maven") and not build:
        return f"left out: --build, or {' '.join(commands(peer, _place(peer, folder))[0])}"
    why = install(peer, folder)
    return f"failed: {why}" if why else "installed"


if __name__ == "__main__":
    sys.exit(main())
