"""The benchmarks, in the order in which they run and stand in RESULTS.md.

A benchmark is a module with `run(options: Options) -> Section`. It is imported when it is run, so that one whose
packages are absent keeps no other from running.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.options import Options
from bench.report import Section, now


@dataclass(frozen=True)
class Bench:
    """One benchmark. A long one is left out of a plain run of all: it keeps its last figures."""

    name: str
    about: str
    module: str = ""
    function: str = "run"
    long: bool = False

    def load(self) -> Callable[[Options], Section]:
        run: Callable[[Options], Section] = getattr(
            importlib.import_module(f"bench.{self.module or self.name}"), self.function
        )
        return run


ALL = {
    one.name: one
    for one in (
        Bench("http", "requests a second over HTTP, all servers", "throughput"),
        Bench("synced", "the same where every commit is synced: ours and Dynoxide", "throughput", "run_synced"),
        Bench("tail", "the slowest calls over HTTP at a steady rate, all servers: p99 and p99.9"),
        Bench("inprocess", "microseconds a call without a network"),
        Bench("load", "100,000 items of 1 KB into an empty table"),
        Bench("growth", "calls at 10³ to 10⁶ items (10⁷ with --large)"),
        Bench("claims", "claiming and reading jobs beside 10² to 10⁵ finished ones (10⁶ with --large)"),
        Bench("footprint", "start-up, memory and file size of all servers; ours with a 2 GB file"),
        Bench("coldstart", "how long each command takes to start, by `python3 -c pass`"),
        Bench("stalls", "reads and writes of one table while another of 10⁶ items is backed up, restored, deleted"),
        Bench("clients", "client CPU a call: ours, boto3, aiobotocore, pydynox, aiodynamo, PynamoDB"),
        Bench("typed", "client CPU of typed items: ours, our Table, pydynox, PynamoDB", "clients", "run_typed"),
        Bench("vectors", "10⁴ and 10⁵ vectors of 384 dimensions loaded and searched over HTTP"),
        Bench("scans", "memory of a process that scans 10⁶ items", long=True),
        Bench("tables", "13 tables planned, applied and verified; index builds side by side", "fleet"),
        Bench("rekey", "a table's key changed beside a writer, every write checked"),
        Bench("migrations", "items given a new shape beside a writer, every write checked"),
        Bench("jobs", "job systems: no-op jobs a second, and a worker that is killed"),
        Bench("processes", "one, two and four worker processes on one file: jobs a second, CPU a job"),
        Bench("wakeup", "how soon an idle worker starts a job of another process, and what waiting costs"),
        Bench("sleepers", "a claim beside 100,000 sleeping jobs; 10,000 timers that are due at once"),
        Bench("takeover", "how soon a killed worker's job goes on in another one of the same machine"),
        Bench("kills", "2,000 jobs and 200 killed workers: a checker finds nothing lost", long=True),
        Bench("records", "records processed in parallel: efficiency, CPU, chunks, processes"),
        Bench("memory", "the memory of processing 10⁴ and 10⁶ records", "records", "run_memory", long=True),
        Bench("files", "a file of 1 GB saved and read back"),
        Bench("excel", "reading a report's job while its table grows", "excel_reads"),
        Bench("delphi", "Delphi's write stage beside boto3's batch writer"),
        Bench("demo", "`penstock demo`, first and second time"),
        Bench("dashboard", "server time of the first page, polls of 200 open pages, sizes"),
        Bench("walks", "files on the way of four calls, and lines of source", "source_walks"),
        Bench("conformance", "the public suite (needs --suite DIR)"),
    )
}


def measured(bench: Bench, options: Options) -> Section:
    """The section, with when and how it was made and how busy the machine was before."""
    busy, began = os.getloadavg()[0], time.monotonic()
    section = bench.load()(options)
    section.command = " ".join(["python -m bench", bench.name, *options.words()])
    section.measured, section.seconds = now(), time.monotonic() - began
    section.busy, section.cores = busy, os.cpu_count() or 1
    return section


def alone(name: str) -> None:
    """What `python -m bench.MODULE` does: the same as `python -m bench NAME`."""
    from bench.__main__ import main

    sys.exit(main([name, *sys.argv[1:]]))
