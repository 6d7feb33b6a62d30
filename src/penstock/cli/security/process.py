"""`penstock security process`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from penstock.cli.kit.exit_codes import INTERRUPTED
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json
from penstock.cli.security.options import (
    agents_option,
    end_with,
    finished,
    job_form,
    opened,
    show_job,
    storage_options,
    summary_text,
)
from penstock.systems.security_assistant.agents import default_agents, load_agents
from penstock.systems.security_assistant.drawing import DRAWING_BYTES, DrawingTooLarge
from penstock.systems.security_assistant.intake import NewDrawing, check_files, take_in
from penstock.systems.security_assistant.job import DrawingJob
from penstock.systems.security_assistant.processor import SAFETY_MARGIN_SECONDS, TIME_LIMIT_SECONDS, Processor
from penstock.systems.security_assistant.stages import STAGES
from penstock.systems.security_assistant.storage import Storage

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("process")
@click.argument("drawing", type=_FILE)
@click.option("--company", required=True, metavar="NAME", help="Whose job it is.")
@click.option("--client", required=True, metavar="NAME")
@click.option("--project", required=True, metavar="NAME")
@click.option("--context", type=_FILE, help="A document that says what is meant: .docx, .txt or .md.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the schedule there too.")
@click.option("--queue", is_flag=True, help="Only write the job down; `penstock security worker` does it.")
@click.option(
    "--time-limit",
    type=click.FloatRange(0),
    default=TIME_LIMIT_SECONDS,
    show_default=True,
    help="Seconds until the job is handed over at a checkpoint.",
)
@agents_option
@storage_options
@json_option
def command(
    drawing: Path,
    company: str,
    client: str,
    project: str,
    context: Path | None,
    out: Path | None,
    queue: bool,
    time_limit: float,
    agents: str | None,
    as_json: bool,
    **place: str | None,
) -> None:
    """Make a component schedule of the PDF DRAWING.

    \b
    Examples:
      penstock security process drawing.pdf --company 7central --client "St. Mary's" --project "Wing" --out s.xlsx
      penstock security process drawing.pdf --company 7central --client Acme --project Tower --db jobs.db --queue

    Exit codes: 0 done, 1 the drawing cannot be read, 3 the job has failed (the drawing has no components, say).
    """
    new = NewDrawing(
        company_id=company,
        client_name=client,
        project_name=project,
        file_name=drawing.name,
        pdf=_read(drawing),
        context_name="" if context is None else context.name,
        context=None if context is None else _read(context),
    )
    check_files(new)  # what cannot be read leaves no folder and no table
    with opened(place, make=True) as storage:
        job = take_in(storage, new)
        if not queue:
            job = _done(job, _processor(storage, agents, time_limit, quiet=as_json))
        if as_json:
            print_json(job_form(job))
        elif queue:
            click.echo(f"{job.id} is queued. `penstock security worker` does it.")
        else:
            show_job(job, stages=False)
        if out is not None and "excel" in job.output_files:
            out.write_bytes(storage.get(job.output_files["excel"], expect=job.saved[job.output_files["excel"]]))
    end_with(job)


def _done(job: DrawingJob, processor: Processor) -> DrawingJob:
    try:
        return finished(processor, job)
    except KeyboardInterrupt:
        click.echo(f"\nInterrupted: go on with `penstock security resume {job.id}`.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


def _processor(storage: Storage, agents: str | None, time_limit: float, *, quiet: bool) -> Processor:
    return Processor(
        storage,
        load_agents(agents) if agents else default_agents(),
        time_limit_seconds=time_limit,
        safety_margin_seconds=min(SAFETY_MARGIN_SECONDS, time_limit / 10),
        watch=StageLines(quiet=quiet),
    )


class StageLines:
    """A line on stderr for each stage that is done."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._since = time.monotonic()

    def __call__(self, stage: str, job: DrawingJob) -> None:
        now = time.monotonic()
        if not self._quiet:
            point = job.checkpoints[next(one.checkpoint for one in STAGES if one.name == stage)]
            click.echo(f"  {stage:11} {now - self._since:5.2f} s  {summary_text(point.summary)}", err=True)
        self._since = now


def _read(path: Path) -> bytes:
    if path.stat().st_size > DRAWING_BYTES:
        raise DrawingTooLarge(f"{path} has more than {DRAWING_BYTES:,} bytes. Split it, or leave pictures out.")
    return path.read_bytes()
