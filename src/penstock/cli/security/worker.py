"""`penstock security worker`."""

from __future__ import annotations

import time

import click

from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json
from penstock.cli.security.options import agents_option, opened, storage_options
from penstock.cli.security.process import StageLines
from penstock.records.leases import LeaseLost
from penstock.systems.security_assistant.agents import default_agents, load_agents
from penstock.systems.security_assistant.job import DrawingJob
from penstock.systems.security_assistant.processor import SAFETY_MARGIN_SECONDS, TIME_LIMIT_SECONDS, Processor


@click.command("worker")
@click.option("--once", is_flag=True, help="End when no job waits.")
@click.option("--idle", type=click.FloatRange(0.05), default=1.0, show_default=True, help="Seconds between questions.")
@click.option(
    "--time-limit",
    type=click.FloatRange(0),
    default=TIME_LIMIT_SECONDS,
    show_default=True,
    help="Of a job, in seconds.",
)
@agents_option
@storage_options
@json_option
def command(once: bool, idle: float, time_limit: float, agents: str | None, as_json: bool, **place: str | None) -> None:
    """Process jobs as they come, and go on with those whose worker is gone. Any number of workers may run.

    \b
    Examples:
      penstock security worker --db jobs.db
      penstock security worker --once --json
    """
    with opened(place, make=True) as storage:
        processor = Processor(
            storage,
            load_agents(agents) if agents else default_agents(),
            time_limit_seconds=time_limit,
            safety_margin_seconds=min(SAFETY_MARGIN_SECONDS, time_limit / 10),
            watch=StageLines(quiet=as_json),
        )
        if not as_json:
            click.echo(f"{processor.owner}: jobs of {storage.shelf.where}", err=True)
        while True:
            try:
                done = processor.process_next()
            except LeaseLost as lost:
                click.echo(str(lost), err=True)
                continue
            if done is not None:
                _show(done, as_json)
            elif once:
                return
            else:
                time.sleep(idle)


def _show(job: DrawingJob, as_json: bool) -> None:
    if as_json:
        print_json({"job_id": job.id, "status": job.state.value, "error": job.error})
    else:
        click.echo(f"{job.id} is {job.state.value}")
