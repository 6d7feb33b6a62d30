"""`penstock worker`: runs an app's jobs."""

from __future__ import annotations

import gc
import signal
import sys
from contextlib import suppress
from types import FrameType

import click

from penstock.cli.jobs.options import names_told
from penstock.cli.jobs.supervisor import Supervisor
from penstock.cli.kit.exit_codes import LEASE_LOST, WORK_FAILED
from penstock.cli.kit.output import log_warnings, one_line
from penstock.jobs.app_names import load_app
from penstock.jobs.model.job import Job
from penstock.jobs.worker.fetcher import DEFAULT_IDLE_SECONDS
from penstock.jobs.worker.outcomes import Counts
from penstock.jobs.worker.worker import DEFAULT_CONCURRENCY, DEFAULT_GRACE_SECONDS, MOST_CONCURRENCY, Worker
from penstock.records.executors.forks import for_handlers, not_in_children

_LINE = 300
"""Characters of what is said of a job; all of it is in `penstock jobs show`."""


@click.command("worker")
@click.argument("app", metavar="MODULE:APP")
@click.option(
    "--concurrency", type=click.IntRange(1, MOST_CONCURRENCY), default=DEFAULT_CONCURRENCY, show_default=True,
    help="Jobs at once, each in a thread.",
)  # fmt: skip
@click.option(
    "--processes", type=click.IntRange(1, 256), default=1, show_default=True,
    help="Worker processes, each with its own threads: for work that needs the CPU. One that dies is started again.",
)  # fmt: skip
@click.option("--queue", "queues", multiple=True, default=("default",), show_default=True, help="May be given again.")
@click.option("--burst", is_flag=True, help="End when there is nothing more to do.")
@click.option(
    "--grace", type=click.FloatRange(0), default=DEFAULT_GRACE_SECONDS, show_default=True, metavar="SECONDS",
    help="How long running tasks may go on after Ctrl-C or SIGTERM.",
)  # fmt: skip
@click.option(
    "--idle", type=click.FloatRange(0.02, 60), default=DEFAULT_IDLE_SECONDS, show_default=True, metavar="SECONDS",
    help="How long an idle worker waits before it looks again.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="Say nothing of each job.")
def command(
    app: str,
    concurrency: int,
    processes: int,
    queues: tuple[str, ...],
    burst: bool,
    grace: float,
    idle: float,
    quiet: bool,
) -> None:
    """Run the jobs of an app.

    \b
    Examples:
      penstock worker reports:app
      penstock worker reports:app --concurrency 4 --queue default --queue mail
      penstock worker reports:app --processes 2   work that needs the CPU
      penstock worker reports:app --burst         until there is no more

    With --burst, the exit code is 3 if a job has failed and 6 if one was lost to another worker.

    Ctrl-C (or SIGTERM) stops it calmly: running tasks finish, or hand over at their next report. A second one ends it
    at once; other workers then take its jobs over when their leases have run out.
    """
    log_warnings()
    found = load_app(app)
    if processes > 1:
        raise SystemExit(Supervisor(sys.argv[1:], processes, grace).run())
    worker = Worker(
        found,
        queues=queues,
        concurrency=concurrency,
        burst=burst,
        grace_seconds=grace,
        idle_seconds=idle,
        on_end=(lambda job, how: None) if quiet else _tell,
    )
    _stop_on_signals(worker)
    gc.freeze()  # what has been loaded lives as long as the process: the collector need not look at it each time
    if not quiet:
        click.echo(f"{worker.name}: {names_told(found.tasks)} from {found.store.db.name}", err=True)
    counts = worker.run()
    found.close()
    if not quiet:
        click.echo(_counted(counts), err=True)
        click.echo(f"Looking for jobs took {worker.feed.read_units:,.0f} read units.", err=True)
    if burst and (counts.lost or counts.failed):
        raise SystemExit(LEASE_LOST if counts.lost else WORK_FAILED)


def _counted(counts: Counts) -> str:
    """The usual three, and the others where there are any."""
    others = {"cancelled": counts.cancelled, "handed over": counts.handed_over, "lost": counts.lost}
    rest = "".join(f", {number:,} {how}" for how, number in others.items() if number)
    return f"{counts.completed:,} completed, {counts.failed:,} failed, {counts.retried:,} to retry{rest}."


def _tell(job: Job, how: str) -> None:
    reason = (
        f": {job.error.kind}: {job.error.message}" if job.error is not None and how in ("failed", "retried") else ""
    )
    line = one_line(f"{job.id} {job.task} {how.replace('_', ' ')}{reason}")
    with suppress(OSError):  # nobody reads it any more: the work goes on
        click.echo(line if len(line) <= _LINE else f"{line[: _LINE - 1]}…", err=True)


def _stop_on_signals(worker: Worker) -> None:
    stop_worker = for_handlers(worker.stop)

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # the second one ends it at once
        stop_worker()
        click.echo("Stopping: running tasks finish or hand over. Once more to end at once.", err=True)

    signal.signal(signal.SIGINT, not_in_children(stop))
    signal.signal(signal.SIGTERM, not_in_children(stop))
