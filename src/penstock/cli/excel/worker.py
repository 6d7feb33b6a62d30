"""`penstock excel worker`."""

from __future__ import annotations

import signal
from types import FrameType

import click

from penstock.cli.excel.options import Place, place_options
from penstock.cli.kit.exit_codes import WORK_FAILED
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import log_warnings, print_json
from penstock.jobs.worker.worker import Worker
from penstock.records.executors.forks import for_handlers, not_in_children


@click.command("worker")
@place_options
@click.option("--concurrency", type=click.IntRange(1, 64), default=2, show_default=True, help="Reports at once.")
@click.option("--burst", is_flag=True, help="End when there is nothing more to do.")
@json_option
def command(place: Place, concurrency: int, burst: bool, as_json: bool) -> None:
    """Make the reports that are asked for, and go on with those whose worker has died.

    \b
    Examples:
      penstock excel worker --db reports.db
      penstock excel worker --db reports.db --burst

    Ctrl-C (or SIGTERM) stops it calmly; a second one ends it at once. Exit code 3: with --burst, a report has failed.
    """
    log_warnings()
    with place.opened("made") as service:
        worker = service.worker(
            concurrency=concurrency,
            burst=burst,
            on_end=lambda job, how: click.echo(f"{job.id} {how.replace('_', ' ')}", err=True),
        )
        _stop_on_signals(worker)
        counts = worker.run()
    if as_json:
        print_json({"completed": counts.completed, "failed": counts.failed, "retried": counts.retried})
    if burst and counts.failed:
        raise click.exceptions.Exit(WORK_FAILED)


def _stop_on_signals(worker: Worker) -> None:
    stop_worker = for_handlers(worker.stop)

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # the second one ends it at once
        stop_worker()

    signal.signal(signal.SIGINT, not_in_children(stop))
    signal.signal(signal.SIGTERM, not_in_children(stop))
