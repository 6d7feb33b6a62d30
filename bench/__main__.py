"""`python -m bench [http | inprocess | load | growth | clients | jobs | conformance]`: one, or all into RESULTS.md."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench import clients, conformance, growth, inprocess, jobs, load, report, throughput
from bench.report import Section

IDLE_LOAD = 0.5
HTTP = {False: throughput.Plan(rounds=3, seconds=4), True: throughput.Plan(rounds=1, seconds=1)}
IN_PROCESS = {False: inprocess.Plan(calls=5000, slow_calls=2000), True: inprocess.Plan(calls=1000, slow_calls=300)}
GROWTH = {
    False: growth.Plan(small=1000, large=1_000_000, file_bytes=2_000_000_000, rounds=7, calls=2000, starts=10),
    True: growth.Plan(small=1000, large=100_000, file_bytes=200_000_000, rounds=3, calls=500, starts=3),
}
LOAD = {False: load.Plan(items=100_000, rounds=3), True: load.Plan(items=20_000, rounds=1)}
CLIENTS = {False: clients.Plan(rounds=28, calls=100), True: clients.Plan(rounds=3, calls=60)}
JOBS = {
    False: jobs.Plan(rounds=3, jobs=5000, give_up_seconds=60),
    True: jobs.Plan(rounds=1, jobs=500, give_up_seconds=10),
}


def main() -> None:
    options = _parser().parse_args()
    if options.bench is None:
        sections = _all(options)
        report.save(sections)
        return
    section = _measured(BENCHES[options.bench], options)
    report.show(section)
    if options.save:
        report.save([section])


def _all(options: argparse.Namespace) -> list[Section]:
    sections = []
    for bench in (_http, _synced, _inprocess, _load, _growth, _clients, _jobs, _conformance):
        if bench is _conformance and options.suite is None:
            sys.stdout.write("Conformance: give --suite DIR to run it.\n")
            continue
        sections.append(_measured(bench, options))
        report.show(sections[-1])
    return sections


def _measured(bench: Callable[[argparse.Namespace], Section], options: argparse.Namespace) -> Section:
    """The section, with how busy the machine was before: figures of a busy one are worth little."""
    busy = os.getloadavg()[0]
    section = bench(options)
    verdict = "" if busy < IDLE_LOAD else " Other work shared the machine: measure again when it is idle."
    section.notes.append(f"Load average before this run: {busy:.1f} on {os.cpu_count()} cores.{verdict}")
    return section


def _http(options: argparse.Namespace) -> Section:
    plan = throughput.Plan(options.rounds or HTTP[options.quick].rounds, options.seconds or HTTP[options.quick].seconds)
    sync = getattr(options, "sync", None)
    return throughput.run(plan, options.peer, sync, _command("http", options, *(["--sync", sync] if sync else [])))


def _synced(options: argparse.Namespace) -> Section:
    options.sync = "full"
    section = _http(options)
    options.sync = None
    return section


def _inprocess(options: argparse.Namespace) -> Section:
    return inprocess.run(IN_PROCESS[options.quick], options.peer, options.moto_python, _command("inprocess", options))


def _load(options: argparse.Namespace) -> Section:
    plan = LOAD[options.quick]
    return load.run(load.Plan(plan.items, options.rounds or plan.rounds), _command("load", options))


def _growth(options: argparse.Namespace) -> Section:
    return growth.run(GROWTH[options.quick], options.peer, _command("growth", options))


def _clients(options: argparse.Namespace) -> Section:
    return clients.run(CLIENTS[options.quick], options.clients_python, _command("clients", options))


def _jobs(options: argparse.Namespace) -> Section:
    plan = JOBS[options.quick]
    words = [f"--only {name}" for name in options.only]
    if options.rounds:
        plan = replace(plan, rounds=options.rounds)
        words.append(f"--rounds {options.rounds}")
    return jobs.run(plan, options.only, options.jobs_peers, _command("jobs", options, *words))


def _conformance(options: argparse.Namespace) -> Section:
    command = _command("conformance", options, "--suite", "DIR", *(f"--against {one}" for one in options.against))
    return conformance.run(options.suite, options.against, options.peer, command)


BENCHES = {
    "http": _http,
    "inprocess": _inprocess,
    "load": _load,
    "growth": _growth,
    "clients": _clients,
    "jobs": _jobs,
    "conformance": _conformance,
}


def _command(bench: str, options: argparse.Namespace, *more: str) -> str:
    """The command that measures this again; the peers' places are this machine's own and are left out."""
    return " ".join(["python -m bench", bench, *(["--quick"] if options.quick else []), *more])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("bench", nargs="?", choices=list(BENCHES))
    parser.add_argument("--quick", action="store_true", help="a short run: is everything in place?")
    parser.add_argument("--save", action="store_true", help="put this benchmark's section in RESULTS.md")
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="a peer's command, with {port} and {dir}; leading NAME=value words are its environment",
    )
    parser.add_argument("--rounds", type=int, help="http, load: rounds of each load (3)")
    parser.add_argument("--seconds", type=int, help="http: seconds of each round (4)")
    parser.add_argument("--sync", choices=["full"], help="http: ours and Dynoxide, both syncing every commit")
    parser.add_argument("--moto-python", help="inprocess: an interpreter that has moto")
    parser.add_argument("--clients-python", help="clients: an interpreter that has pydynox, aiodynamo and the others")
    parser.add_argument("--jobs-peers", help="jobs: a folder that has an environment for each of the others")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="jobs: these alone, such as huey")
    parser.add_argument("--suite", type=Path, help="conformance: the suite's folder, after `npm install`")
    parser.add_argument("--against", action="append", default=[], help="conformance: a peer to run it on as well")
    return parser


if __name__ == "__main__":
    main()
