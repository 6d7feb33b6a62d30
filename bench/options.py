"""What every benchmark is told: how long it may take, where peers and kept files are, and changes of its plan."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from bench.peers import Peers

Level = Literal["quick", "full", "large"]
Plan = TypeVar("Plan")


@dataclass(frozen=True)
class Options:
    level: Level = "full"
    peers: Peers = field(default_factory=Peers)
    keep: Path | None = None
    only: tuple[str, ...] = ()
    changes: Mapping[str, str] = field(default_factory=dict)
    suite: Path | None = None
    against: tuple[str, ...] = ()

    def plan(self, plans: Mapping[str, Plan]) -> Plan:
        """The plan of this run's level (`large` is `full` where a benchmark has none), with what --set changes."""
        plan = plans.get(self.level, plans["full"])
        known: dict[str, Any] = {one.name: getattr(plan, one.name) for one in fields(plan)}  # type: ignore[arg-type]
        unknown = sorted(set(self.changes) - set(known))
        if unknown:
            raise SystemExit(f"--set {unknown[0]}: no such number here; there are {', '.join(known)}")
        changed = {name: type(known[name])(_number(name, text)) for name, text in self.changes.items()}
        return replace(plan, **changed)  # type: ignore[type-var]

    def wants(self, name: str) -> bool:
        """Whether a subject is to be measured: ours always, others unless --only names others."""
        return name == "penstock" or not self.only or name in self.only

    def words(self) -> list[str]:
        """The options that belong to a command which measures this again; this machine's places are left out."""
        level = [] if self.level == "full" else [f"--{self.level}"]
        return [
            *level,
            *(f"--set {name}={text}" for name, text in self.changes.items()),
            *(f"--only {name}" for name in self.only),
            *(["--suite DIR"] if self.suite else []),
            *(f"--against {name}" for name in self.against),
        ]


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SystemExit(f"--set {name}={text}: {text!r} is not a number") from None


def parser(description: str, listing: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m bench",
        description=description,
        epilog=listing,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("section", nargs="*", help="those below; none: all")
    length = made.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="all in three minutes: is everything in place?")
    length.add_argument("--large", action="store_true", help="the long sections too, and 10⁷ items")
    made.add_argument("--save", action="store_true", help="named sections: put them in RESULTS.md (all: always done)")
    made.add_argument("--out", type=Path, metavar="DIR", help="where RESULTS.md, results.json and plots/ go")
    made.add_argument("--keep", type=Path, metavar="DIR", help="large files are kept here, and used again")
    made.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="one section: a number of its plan, such as rounds=1",
    )
    made.add_argument("--peers", type=Path, metavar="DIR", help="what `python -m bench.peers DIR` installed")
    made.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="a server's command, with {port} and {dir}; leading NAME=value words are its environment",
    )
    made.add_argument("--moto-python", metavar="PY", help="an interpreter that has moto")
    made.add_argument("--clients-python", metavar="PY", help="an interpreter that has pydynox, aiodynamo, …")
    made.add_argument("--jobs-peers", type=Path, metavar="DIR", help="a folder with an environment for each job system")
    made.add_argument("--only", action="append", default=[], metavar="NAME", help="beside ours, only these peers")
    made.add_argument("--suite", type=Path, metavar="DIR", help="conformance: the suite, after `npm install`")
    made.add_argument("--against", action="append", default=[], metavar="NAME", help="conformance: a peer, too")
    return made


def options_of(told: argparse.Namespace) -> Options:
    wrong = [text for text in (*told.set, *told.peer) if "=" not in text]
    if wrong:
        raise SystemExit(f"{wrong[0]!r} should be NAME=VALUE")
    return Options(
        level="quick" if told.quick else "large" if told.large else "full",
        peers=Peers(
            folder=told.peers,
            commands=dict(text.split("=", 1) for text in told.peer),
            moto_python=told.moto_python,
            clients_python=told.clients_python,
            jobs_folder=told.jobs_peers,
        ),
        keep=told.keep,
        only=tuple(told.only),
        changes=dict(text.split("=", 1) for text in told.set),
        suite=told.suite,
        against=tuple(told.against),
    )
