"""`penstock security resume`."""

from __future__ import annotations

import click

from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json
from penstock.cli.security.options import (
    agents_option,
    company_option,
    end_with,
    finished,
    job_form,
    opened,
    show_job,
    storage_options,
)
from penstock.cli.security.process import StageLines
from penstock.jobs.model.state import State
from penstock.systems.security_assistant import changes
from penstock.systems.security_assistant.agents import default_agents, load_agents
from penstock.systems.security_assistant.job import DrawingJob
from penstock.systems.security_assistant.processor import Processor
from penstock.systems.security_assistant.storage import Storage


@click.command("resume")
@click.argument("job_id", metavar="[JOB]", required=False)
@company_option
@agents_option
@storage_options
@json_option
def command(job_id: str | None, company: str | None, agents: str | None, as_json: bool, **place: str | None) -> None:
    """Go on with JOB after its last checkpoint; without JOB, with all jobs whose worker is gone.

    \b
    Examples:
      penstock security resume
      penstock security resume job_mbzlks74_rfi5i0 --db jobs.db

    A failed job gets another attempt. A job that another worker has is left to it. Exit codes: 0 done, 1 another worker
    has it, 3 the job has failed, 4 there is no such job.
    """
    with opened(place, company) as storage:
        made = load_agents(agents) if agents else default_agents()
        processor = Processor(storage, made, watch=StageLines(quiet=as_json))
        jobs = list(storage.interrupted_jobs()) if job_id is None else [_ready(storage, storage.job(job_id))]
        done = [finished(processor, job) if not job.is_terminal else job for job in jobs]
    if as_json:
        print_json([job_form(job) for job in done])
    elif not done:
        click.echo("No job was interrupted.")
    else:
        for job in done:
            show_job(job)
    for job in done:
        end_with(job)


def _ready(storage: Storage, job: DrawingJob) -> DrawingJob:
    if job.state is not State.FAILED:
        return job
    now = storage.now()
    return storage.change(job, lambda current: changes.retried(current, now))
