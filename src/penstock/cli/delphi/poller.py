"""`penstock delphi poller`."""

from __future__ import annotations

import signal
from types import FrameType

import click

from penstock.cli.delphi.options import files_option, queue, url_option
from penstock.cli.kit.exit_codes import WORK_FAILED
from penstock.cli.kit.output import log_warnings
from penstock.jobs.model.job import Job
from penstock.jobs.worker.worker import Worker
from penstock.records.executors.forks import for_handlers, not_in_children
from penstock.systems.delphi.poller import DEFAULT_INTERVAL_SECONDS


@click.command("poller")
@url_option
@files_option
@click.option(
    "--interval", type=click.FloatRange(0.02, 60), default=DEFAULT_INTERVAL_SECONDS, show_default=True,
    metavar="SECONDS", help="How long it waits before it looks again.",
)  # fmt: skip
@click.option(
    "--max-workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Jobs at once, each a process."
)
@click.option("--burst", is_flag=True, help="End when there is nothing more to do.")
def command(url: str, files: str | None, interval: float, max_workers: int, burst: bool) -> None:
    """Run the queue's jobs: the most urgent first, then the oldest. Any number of pollers share a queue.

    \b
    Examples:
      penstock delphi poller --db delphi.db --interval 5 --max-workers 2
      penstock delphi poller --db delphi.db --burst

    Each job is a process with DELPHI_JOB_ID and DELPHI_REPORT_ID. Ctrl-C (or SIGTERM) ends the processes and gives
    their jobs back; they go on where they stopped. With --burst, the exit code is 3 if a job has failed.
    """
    log_warnings()
    with queue(url, files, may_make=True) as found:
        worker = found.poller(interval_seconds=interval, max_workers=max_workers, burst=burst, on_end=_tell)
        _stop_on_signals(worker)
        click.echo(f"{worker.name}: {', '.join(sorted(found.app.tasks))} from {url}", err=True)
        counts = worker.run()
    click.echo(f"{counts.completed:,} completed, {counts.failed:,} failed, {counts.retried:,} to retry.", err=True)
    if burst and counts.failed:
        raise SystemExit(WORK_FAILED)


def _tell(job: Job, how: str) -> None:
    reason = f": {job.error.message}" if job.error is not None and how in ("failed", "retried") else ""
    click.echo(f"{job.id} {how.replace('_', ' ')}{reason}", err=True)


def _stop_on_signals(worker: Worker) -> None:
    stop_worker = for_handlers(worker.stop)

    def stop(number: int, frame: FrameType | None) -> None:
        stop_worker()

    signal.signal(signal.SIGINT, not_in_children(stop))
    signal.signal(signal.SIGTERM, not_in_children(stop))
