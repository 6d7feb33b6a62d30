"""`penstock worker`: runs an app's jobs, in one process or in several that are supervised."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any, Final

import click
import orjson

from penstock.cli.jobs.commands import names_text
from penstock.cli.jobs.supervisor import SourceFiles, Supervisor
from penstock.cli.kit import groups
from penstock.cli.kit.exit_codes import LEASE_LOST, WORK_FAILED, end_with
from penstock.cli.kit.logs import JsonFormatter, log_as_json, log_warnings
from penstock.cli.kit.output import one_line
from penstock.client.database import Database
from penstock.client.transports.base import Capabilities
from penstock.client.wrappers.metering import Meter, Metering
from penstock.errors import PenstockError
from penstock.jobs.app import App, load_app
from penstock.jobs.metrics.http import metrics_server
from penstock.jobs.metrics.worker_metrics import WorkerMetrics
from penstock.jobs.model.job import Job
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker.fetcher import DEFAULT_IDLE_SECONDS
from penstock.jobs.worker.outcomes import Counts
from penstock.jobs.worker.registry import WorkerRegistry
from penstock.jobs.worker.worker import (
    DEFAULT_CONCURRENCY,
    DEFAULT_GRACE_SECONDS,
    MOST_CONCURRENCY,
    Worker,
    await_database,
)
from penstock.records.forks import for_handlers, not_in_children

_LINE_CHARACTERS: Final = 300
"""Of the line about a job; all of it is in `penstock jobs show`."""


def _refuse_database(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None and not ctx.resilient_parsing:
        raise click.UsageError(
            "A worker has no --db: the app names its database, as in App('jobs.db'); else PENSTOCK_DB."
        )


def _says_its_end(run: Callable[..., None]) -> Callable[..., None]:
    """Tells the supervisor when this process ends by itself. A task that ends it, with whatever code, tells nothing."""

    @wraps(run)
    def run_and_say(**options: Any) -> None:
        by_itself = True
        try:
            run(**options)
        except BaseException as error:
            by_itself = isinstance(error, click.ClickException | click.exceptions.Exit | PenstockError)
            raise
        finally:
            if by_itself and options["supervisor"] is not None:
                with suppress(OSError):  # the supervisor has ended first
                    os.write(options["supervisor"][1], b"%d\n" % os.getpid())

    return run_and_say


@groups.command(
    "worker",
    exit_codes={WORK_FAILED: "a job has failed (with --burst)", LEASE_LOST: "one was lost to another worker"},
)
@click.argument("app", metavar="MODULE:APP")
@click.option(
    "--concurrency", type=click.IntRange(1, MOST_CONCURRENCY), default=DEFAULT_CONCURRENCY, show_default=True,
    help="Jobs at once: each in a thread, async tasks on one event loop.",
)  # fmt: skip
@click.option(
    "--processes", type=click.IntRange(1, 256), default=1, show_default=True,
    help="Worker processes, each with its own threads, for work that needs the CPU. A dead one is started again.",
)  # fmt: skip
@click.option(
    "--reload", is_flag=True,
    help="Start again when a Python file below the current folder changes: for development.",
)  # fmt: skip
@click.option(
    "--queue",
    "queues",
    multiple=True,
    default=("default",),
    show_default=True,
    help="A queue to take jobs from; repeatable.",
)
@click.option("--burst", is_flag=True, help="Exit when no job is due.")
@click.option(
    "--until-empty", is_flag=True, help="Exit when no job is left: wait for retries and for jobs that are due later."
)
@click.option(
    "--time-limit", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
    help="Exit within this many seconds, the grace included: for cron, CI and Lambda.",
)  # fmt: skip
@click.option("--supervisor", type=(int, int), hidden=True)
@click.option(
    "--grace", type=click.FloatRange(0), metavar="SECONDS",
    help="How long running tasks may continue after Ctrl-C or SIGTERM. "
    f"[default: {DEFAULT_GRACE_SECONDS:g}; with --time-limit, a quarter of it at most]",
)  # fmt: skip
@click.option(
    "--idle", type=click.FloatRange(0.02, 60), default=DEFAULT_IDLE_SECONDS, show_default=True, metavar="SECONDS",
    help="How long an idle worker waits before it polls again.",
)  # fmt: skip
@click.option(
    "--metrics-port", type=click.IntRange(0, 65_535 - 256), metavar="PORT",
    help="Serve /metrics and /healthz on this machine's PORT; of --processes, each on the next one.",
)  # fmt: skip
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="How warnings, and the line for each job, are written to stderr.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="Print no line for each job.")
@click.option("--db", "--url", hidden=True, expose_value=False, callback=_refuse_database)
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each job, and the counts at the end.")
@_says_its_end
def command(
    app: str,
    concurrency: int,
    processes: int,
    reload: bool,
    queues: tuple[str, ...],
    burst: bool,
    until_empty: bool,
    time_limit: float | None,
    supervisor: tuple[int, int] | None,
    grace: float | None,
    idle: float,
    metrics_port: int | None,
    log_format: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run the jobs of an app.

    \b
    Examples:
      penstock worker reports:app
      penstock worker reports:app --concurrency 4 --queue default --queue mail
      penstock worker reports:app --processes 2   work that needs the CPU
      penstock worker reports:app --burst         until no job is due
      penstock worker reports:app --metrics-port 9400 --log-format json
      penstock worker reports:app --reload        while you write it

    Ctrl-C (or SIGTERM) stops it calmly: running tasks finish, or are requeued at their next report, async tasks at
    their await. A second one
    stops it at once; other workers of the machine then take its jobs at once, others when their leases have expired.
    """
    if reload and (burst or until_empty or time_limit is not None):
        raise click.UsageError(
            "--reload is for a worker that keeps running: leave out --burst, --until-empty, --time-limit."
        )
    grace_seconds = DEFAULT_GRACE_SECONDS if grace is None else grace
    if reload:  # this process does not import the app, which may be broken until its next change
        end_with(
            Supervisor(
                sys.argv[1:],
                processes,
                grace_seconds,
                sources=SourceFiles(Path.cwd()),
                metrics_port=metrics_port,
            ).run()
        )
        return
    loaded = load_app(app)
    (log_as_json if log_format == "json" else log_warnings)()
    if processes > 1:

        def report_killed(pid: int, how: str) -> None:
            WorkerRegistry(loaded.store.db, loaded.store.layout).report_killed(pid, how)  # it may not be there before

        end_with(
            Supervisor(
                sys.argv[1:],
                processes,
                grace_seconds,
                on_killed=report_killed,
                metrics_port=metrics_port,
            ).run()
        )
        return
    if metrics_port is not None and not burst:
        await_database(loaded, None if time_limit is None else time.monotonic() + time_limit)
    metrics = None if metrics_port is None else _metrics_of(loaded, queues)
    worker = Worker(
        loaded,
        queues=queues,
        concurrency=concurrency,
        burst=burst,
        until_empty=until_empty,
        grace_seconds=grace,
        idle_seconds=idle,
        on_end=(lambda job, how: None) if quiet else _print_json_end if as_json else _END_LINES[log_format],
        metrics=metrics,
        time_limit_seconds=time_limit,
    )
    stop_on_signals(worker)
    if supervisor is not None:
        _stop_without(supervisor[0])
        with suppress(OSError):  # the supervisor has ended first
            os.write(supervisor[1], b"+%d\n" % os.getpid())
    gc.freeze()  # what has been loaded lives as long as the process: the collector need not look at it each time
    if not quiet:
        _announce(worker, len(queues), None if burst else idle)
    with _serving_metrics(loaded.store, metrics, metrics_port, quiet=quiet):
        counts = worker.run()
    loaded.close()
    if as_json:
        click.echo(orjson.dumps({"counts": asdict(counts), "read_units": worker.fetcher.read_units}).decode())
    elif not quiet:
        click.echo(_counts_text(counts), err=True)
        click.echo(f"Looking for jobs took {worker.fetcher.read_units:,.0f} read units.", err=True)
    if (burst or until_empty) and (counts.lost or counts.failed):
        end_with(LEASE_LOST if counts.lost else WORK_FAILED)


def _announce(worker: Worker, queues: int, idle_seconds: float | None) -> None:
    db = worker.app.store.db
    click.echo(f"{worker.name}: {names_text(worker.app.tasks)} from {db.name}", err=True)
    if idle_seconds is not None:
        units = queues * worker.fetcher.poll_units
        if cost := idle_cost_text(db.capabilities, units, idle_seconds):
            click.echo(cost, err=True)


def _metrics_of(app: App, queues: tuple[str, ...]) -> WorkerMetrics:
    """Where capacity is limited or paid for, the units of all calls are counted too."""
    meter = None
    if app.store.db.capabilities.metered:
        meter = Meter()
        app.use(Database(Metering(app.store.db.transport, meter, level="TOTAL")))
    return WorkerMetrics(lambda: app.store, queues, meter=meter)


@contextmanager
def _serving_metrics(
    store: JobStore, metrics: WorkerMetrics | None, port: int | None, *, quiet: bool
) -> Iterator[None]:
    """GET /metrics for the length of a block, if it is wanted."""
    if metrics is None or port is None:
        yield
        return
    with metrics_server(port, metrics.registry.text, lambda: _answers(store)) as chosen:
        if not quiet:
            click.echo(f"Metrics are at http://127.0.0.1:{chosen}/metrics", err=True)
        yield


def _answers(store: JobStore) -> bool:
    try:
        store.db.execute("DescribeTable", {"TableName": store.layout.table})
    except (PenstockError, OSError):
        return False
    return True


def idle_cost_text(capabilities: Capabilities, units: float, idle_seconds: float) -> str:
    """What polling costs while there is nothing to do; "" where it is free, or writes wake the worker."""
    if not capabilities.metered or capabilities.tells_changes:
        return ""
    return f"While idle it polls every {idle_seconds:g} s (--idle): {units / idle_seconds:,.3g} read units a second."


def _counts_text(counts: Counts) -> str:
    """The usual three, and the others where there are any."""
    others = {"suspended": counts.suspended, "cancelled": counts.cancelled}
    others |= {"requeued": counts.requeued, "lost": counts.lost}
    rest = "".join(f", {number:,} {how}" for how, number in others.items() if number)
    return f"{counts.completed:,} completed, {counts.failed:,} failed, {counts.retried:,} to retry{rest}."


def _print_end(job: Job, how: str) -> None:
    reason = (
        f": {job.error.kind}: {job.error.message}" if job.error is not None and how in ("failed", "retried") else ""
    )
    line = one_line(f"{job.id} {job.task} {how.replace('_', ' ')}{reason}")
    with suppress(OSError):  # nobody reads it any more: the work goes on
        click.echo(line if len(line) <= _LINE_CHARACTERS else f"{line[: _LINE_CHARACTERS - 1]}…", err=True)


def _log_json_end(job: Job, how: str) -> None:
    """The same as a log record."""
    level = logging.ERROR if how == "failed" else logging.WARNING if how in ("retried", "lost") else logging.INFO
    reason = (
        f": {job.error.kind}: {job.error.message}" if job.error is not None and how in ("failed", "retried") else ""
    )
    record = logging.LogRecord("penstock.jobs", level, "", 0, f"{job.id} {job.task} {how}{reason}", None, None)
    seconds = None if job.started_at is None else round(max(0.0, job.updated_at - job.started_at), 3)
    record.__dict__.update(job_id=job.id, task=job.task, attempt=job.attempt, outcome=how, seconds=seconds)
    with suppress(OSError):
        click.echo(JsonFormatter().format(record), err=True)


_END_LINES: Final = {"text": _print_end, "json": _log_json_end}


def _print_json_end(job: Job, how: str) -> None:
    error = None if job.error is None else {"kind": job.error.kind, "message": job.error.message}
    form = {"id": job.id, "task": job.task, "ended": how, "state": job.state.value, "error": error}
    with suppress(OSError):
        click.echo(orjson.dumps(form).decode())


def stop_on_signals(worker: Worker) -> None:
    """The first Ctrl-C or SIGTERM stops the worker calmly, the second one ends it at once."""
    stop_worker = for_handlers(worker.stop)

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # the second one ends it at once
        stop_worker()
        with suppress(OSError):  # nobody reads it any more: it stops calmly all the same
            click.echo("Stopping: running tasks finish or are requeued. Press Ctrl-C again to stop at once.", err=True)

    signal.signal(signal.SIGINT, not_in_children(stop))
    signal.signal(signal.SIGTERM, not_in_children(stop))


def _stop_without(supervisor: int) -> None:
    """Stops this process when its supervisor has ended, however: the other end of this pipe is closed then."""

    def wait() -> None:
        os.read(supervisor, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="penstock-supervisor", daemon=True).start()
