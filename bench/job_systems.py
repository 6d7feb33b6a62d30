"""Job systems under measurement: how each is found, and its producer and worker started and ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.job_stores import Store
from bench.peers import Peers
from bench.servers import family

ROOT = Path(__file__).parent.parent
CONCURRENCY = 8
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class System:
    """A job system with one kind of worker: the words after its interpreter that start it."""

    name: str
    title: str
    module: str
    worker: str
    store: str | None  # the server that it needs
    settings: str
    default_worker: str | None = None  # the one of the crash, where it differs; `worker` if None
    crashes: bool = True
    share: int = 1  # of the jobs, one in so many: for those that would take minutes
    synced: bool = False  # whether each commit waits for the disk; compared with each other only

    @property
    def package(self) -> str:
        return self.module

    def command(self, interpreter: str, url: str, *, tuned: bool) -> list[str]:
        text = self.worker if tuned or self.default_worker is None else self.default_worker
        return [interpreter, *text.format(concurrency=CONCURRENCY, url=url).split()]


SYSTEMS = (
    System(
        "penstock",
        "Penstock, embedded",
        "penstock",
        "-m penstock worker bench.job_peers.penstock:app --concurrency {concurrency} --quiet",
        None,
        "one process of threads; events, leases and results stored; a lease of 5 s in the crash (30 by default); "
        "synchronous=normal: a commit survives a kill, but perhaps not a power cut",
    ),
    System(
        "penstock-synced",
        "Penstock, synced",
        "penstock",
        "-m penstock worker bench.job_peers.penstock:app --concurrency {concurrency} --quiet",
        None,
        "as the other, with synchronous=full: each commit is synced",
        crashes=False,
        synced=True,
    ),
    System(
        "huey",
        "Huey, SQLite",
        "huey",
        "-m huey.bin.huey_consumer bench.job_peers.huey.app -w {concurrency} -k thread -q",
        None,
        "threads; `fsync=False`, which is synchronous=off: nothing is ever synced",
    ),
    System(
        "huey-synced",
        "Huey, SQLite, synced",
        "huey",
        "-m huey.bin.huey_consumer bench.job_peers.huey.app -w {concurrency} -k thread -q",
        None,
        "threads; its default for `fsync`, which is SQLite's own, synchronous=full: each commit is synced",
        crashes=False,
        synced=True,
    ),
    System(
        "rq",
        "RQ, a fork a job",
        "rq",
        "-m rq.cli worker-pool default -u {url} -n {concurrency} -q",
        "redis",
        "`worker-pool` of as many processes; results not kept; a tenth of the jobs",
        share=10,
    ),
    System(
        "rq-simple",
        "RQ, SimpleWorker",
        "rq",
        "-m rq.cli worker-pool default -u {url} -n {concurrency} -q -w rq.SimpleWorker",
        "redis",
        "`worker-pool` of as many processes that do not fork; results not kept; a tenth of the jobs",
        share=10,
        crashes=False,
    ),
    System(
        "celery-prefork",
        "Celery, prefork",
        "celery",
        "-m celery -A bench.job_peers.celery:app worker -P prefork -c {concurrency} -l WARNING "
        "--without-gossip --without-mingle --without-heartbeat",
        "redis",
        "results ignored, prefetch multiplier 64, no gossip, mingle or heartbeat",
        default_worker="-m celery -A bench.job_peers.celery:app worker -c {concurrency}",
    ),
    System(
        "celery-threads",
        "Celery, threads",
        "celery",
        "-m celery -A bench.job_peers.celery:app worker -P threads -c {concurrency} -l WARNING "
        "--without-gossip --without-mingle --without-heartbeat",
        "redis",
        "as prefork's",
        crashes=False,
    ),
    System(
        "dramatiq",
        "Dramatiq",
        "dramatiq",
        "-m dramatiq bench.job_peers.dramatiq:broker -p 1 -t {concurrency}",
        "redis",
        "one process of threads",
    ),
    System(
        "arq",
        "arq",
        "arq",
        "-m arq bench.job_peers.arq.WorkerSettings",
        "redis",
        "`poll_delay` 0.001 (0.5 by default: 16 jobs a second), results not kept",
    ),
    System(
        "procrastinate",
        "Procrastinate",
        "procrastinate",
        "-m procrastinate -a bench.job_peers.procrastinate.app worker -c {concurrency}",
        "postgres",
        "coroutines, its default connection pool; a quarter of the jobs",
        share=4,
    ),
    System(
        "dbos",
        "DBOS",
        "dbos",
        "-m bench.job_peers.dbos",
        "postgres",
        "`polling_interval_sec` 0.001 (1 by default: 8 jobs a second); enqueued by `DBOSClient`; the "
        "second worker of the crash has the first one's executor id, as by default (with another it does not resume); "
        "a quarter of the jobs",
        share=4,
    ),
)


def interpreter(system: System, peers: Peers) -> str | None:
    """The interpreter that has a system's package, if there is one."""
    return sys.executable if system.package == "penstock" else peers.for_jobs(system.package)


def version(interpreter: str, package: str) -> str:
    question = f"import importlib.metadata as m; print(m.version({package!r}))"
    done = subprocess.run([interpreter, "-c", question], capture_output=True, text=True, timeout=20, check=False)
    return done.stdout.strip() or "unknown"


@dataclass
class Bench:
    """One system in a place of its own: an empty folder, an empty database."""

    system: System
    interpreter: str
    place: Path
    store: Store | None
    url: str  # of its database, where it has a server
    environment: dict[str, str]
    tuned: bool

    @contextmanager
    def producer(self) -> Iterator[Producer]:
        log = (self.place / "producer.log").open("wb")
        process = subprocess.Popen(
            [self.interpreter, "-m", "bench.job_peers", self.system.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=self.place,
            env=self.environment,
            start_new_session=True,
        )
        try:
            yield Producer(process, self.place / "producer.log")
        finally:
            kill(process)
            log.close()

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[bytes]]:
        with (self.place / "worker.log").open("ab") as log:
            process = subprocess.Popen(
                self.system.command(self.interpreter, self.url, tuned=self.tuned),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.place,
                env=self.environment,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            kill(process)

    def last_words(self) -> str:
        """The end of the worker's log: why nothing happened."""
        lines = (self.place / "worker.log").read_text(errors="replace").strip().splitlines() or ["no message"]
        return lines[-1][:200]

    def store_cpu_seconds(self) -> float:
        return cpu_seconds(self.store.pid) if self.store else 0.0


class Producer:
    """The process that enqueues, and that is asked what is left."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process, self._log = process, log

    def ask(self, command: str) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):  # some packages greet on standard output
                answer: dict[str, Any] = json.loads(line)
                return answer
        lines = self._log.read_text(errors="replace").strip().splitlines() or ["no message"]
        raise RuntimeError(lines[-1][:200])


@contextmanager
def bench(system: System, interpreter: str, store: Store | None, *, tuned: bool) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as place:
        url = store.fresh() if store else ""
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "BENCH_JOBS_DIR": place,
            "BENCH_JOBS_URL": url,
            "BENCH_JOBS_CONCURRENCY": str(CONCURRENCY),
            "BENCH_JOBS_TUNED": "1" if tuned else "0",
            "BENCH_JOBS_SYNCED": "1" if system.synced else "0",
        }
        yield Bench(system, interpreter, Path(place), store, url, environment, tuned)


def cpu_seconds(pid: int) -> float:
    """What a process, its living children and those that it has waited for have computed."""
    return sum(map(_cpu_seconds_with_ended, family(pid)))


def _cpu_seconds_with_ended(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / CLOCK_TICKS


def kill(process: subprocess.Popen[Any]) -> None:
    """SIGKILL for a process and all that it started, some of which may lead groups of their own."""
    for pid in family(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
