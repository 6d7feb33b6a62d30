"""`penstock security`: drawings to component schedules."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import click
import orjson

from penstock.cli.kit.completion import complete_targets
from penstock.cli.kit.databases import is_file_target
from penstock.cli.kit.exit_codes import FAILED, INTERRUPTED, NOT_FOUND, NOT_READY, WORK_FAILED, CommandFailed
from penstock.cli.kit.groups import group
from penstock.cli.kit.logs import log_warnings
from penstock.cli.kit.options import (
    DB_VARIABLE,
    TARGETS,
    AgeType,
    confirm,
    database_variable,
    dry_run_option,
    json_option,
    listen_options,
    place_options,
    refuse_host,
    yes_option,
)
from penstock.cli.kit.output import one_line, print_json, print_result
from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.extras import require
from penstock.files import FileMissing
from penstock.jobs.model.job import JobNotFound
from penstock.jobs.model.state import State
from penstock.server.auth.authorization import is_loopback
from penstock.server.server import listen
from penstock.systems.security_assistant.drawing.agents import Agents
from penstock.systems.security_assistant.drawing.pdf import DRAWING_BYTES, DrawingTooLarge
from penstock.systems.security_assistant.drawing.sample import Building
from penstock.systems.security_assistant.jobs import transitions
from penstock.systems.security_assistant.jobs.job import STATUSES, DrawingJob, count_text, part_of
from penstock.systems.security_assistant.jobs.json_store import JOBS_FILE, JsonJobStore
from penstock.systems.security_assistant.jobs.processor import SAFETY_MARGIN_SECONDS, TIME_LIMIT_SECONDS, Processor
from penstock.systems.security_assistant.jobs.stages import (
    KINDS,
    STAGES,
    NewDrawing,
    check_files,
    file_of_kind,
    stages_of,
    submit_drawing,
)
from penstock.systems.security_assistant.jobs.storage import LONGEST_PAGE, Settings, Storage, moment_of, open_storage
from penstock.systems.security_assistant.jobs.store import JobPage, Moved, NothingThere, copy_jobs
from penstock.systems.security_assistant.language_model.options import agents_options

DEFAULT_PORT = 8080
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FAILED = {WORK_FAILED: "the job has failed"}
_NO_JOB = {NOT_FOUND: "there is no such job"}

job_argument = click.argument("job_id", metavar="JOB")
company_option = click.option("--company", metavar="NAME", help="Only jobs of this company.")
time_limit_option = click.option(
    "--time-limit",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Stop the job at a checkpoint before this limit; another worker continues it.",
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where jobs and files are: --folder, --db, --files, --table and --layout."""

    folder: str | None
    db: str | None
    files: str | None
    table: str | None
    layout: str

    def settings(self) -> Settings:
        """The environment's settings, and over them what was said on the command line."""
        environment = dict(os.environ)
        database_variable(environment)  # refuses the name that PENSTOCK_DB had
        if self.db and self.folder:
            raise click.UsageError("Give --folder or --db: jobs are in a folder or in tables.")
        if self.folder:
            environment |= {"STORAGE_MODE": "local", "LOCAL_OUTPUT_DIR": self.folder}
        if self.db:
            environment |= {"STORAGE_MODE": "aws", DB_VARIABLE: self.db}
            if is_file_target(self.db):
                environment.setdefault("PENSTOCK_FILES", f"{self.db}.files")
        if self.files:
            environment["PENSTOCK_FILES"] = self.files
        if self.table:
            environment["DYNAMODB_TABLE"] = self.table
        return Settings.from_environment(environment, layout=self.layout)

    @contextmanager
    def storage(self, company: str | None = None, *, make: bool = False) -> Iterator[Storage]:
        """The storage, or the company's part of it; what is not found ends with exit code 4.

        A command that only looks makes no file and no table.
        """
        try:
            with open_storage(self.settings(), make=make) as storage:
                yield storage if company is None else storage.for_company(company)
        except (JobNotFound, FileMissing, NothingThere) as error:
            raise CommandFailed(NOT_FOUND, str(error)) from error


with_place = place_options(
    Place,
    click.option("--folder", metavar="DIR", help="Store jobs in DIR/jobs.json, files in DIR. Also LOCAL_OUTPUT_DIR."),
    click.option(
        "--db",
        metavar="TARGET",
        callback=refuse_host,
        help=f"Store jobs in tables of this database: {TARGETS}.",
        shell_complete=complete_targets,
    ),
    click.option("--files", metavar="PLACE", help="With --db: store files in a folder or s3://bucket/prefix."),
    click.option("--table", metavar="NAME", help="With --db: the table of jobs. Also DYNAMODB_TABLE."),
    click.option(
        "--layout", type=click.Choice(["safe", "compat"]), default="safe", show_default=True, help="Table layout."
    ),
)


def line_of(job: DrawingJob) -> str:
    """A job in a list."""
    found = job.checkpoints.get("components_extracted")
    count = count_text(found.summary["total_components"], "component") if found is not None and found.summary else ""
    names = f"{job.company}  {job.client_name}, {job.project_name}"
    return f"{job.id:22}  {job.state.value:10}  {utc_text(job.created_at)}  {names}  {count}".rstrip()


def show_job(job: DrawingJob, *, stages: bool = True) -> None:
    """All that a person wants to know of it; without its stages where those have been shown."""
    click.echo(f"{job.id} is {job.state.value}: {job.client_name}, {job.project_name} ({job.company})")
    for stage in stages_of(job) if stages else ():
        point = job.checkpoints.get(stage.checkpoint)
        text = "" if point is None else f"{point.timestamp}  v{point.version}  {summary_text(point.summary)}"
        click.echo(f"  {stage.name:11} {text or '-'}")
    for kind, key in job.output_files.items():
        click.echo(f"  {kind + ':':11} {key}")
    if job.error is not None:
        click.echo(f"  error in {job.error.get('stage') or 'claiming'}: {job.error['message']}")


def summary_text(summary: Any) -> str:
    if not summary:
        return ""
    if "by_type" in summary:
        counts = ", ".join(f"{count} {kind}" for kind, count in summary["by_type"].items())
        return f"{count_text(summary['total_components'], 'component')}: {counts}"
    return ", ".join(f"{name} {value}" for name, value in summary.items())


def work_until_ended(processor: Processor, job: DrawingJob, time_limit: float | None = None) -> DrawingJob:
    """Works on it until it has ended, or with a time limit until that is near: then it waits for another worker."""
    while True:
        done = processor.process(job)
        if done is None:
            raise PenstockError(f"{job.id} is being processed by another worker, or waits for its next attempt.")
        if time_limit is not None or not is_handed_over(done):
            return done
        job = done


def is_handed_over(job: DrawingJob) -> bool:
    """It waits at a checkpoint, and not for its next attempt."""
    return job.state is State.QUEUED and job.retry_at is None


def end_with_state(job: DrawingJob) -> None:
    """Exit code 3 for a job that has failed."""
    if job.state is State.FAILED:
        raise click.exceptions.Exit(WORK_FAILED)


def end_handed_over(job: DrawingJob) -> None:
    """Exit code 5 for a job that another worker is to continue."""
    if is_handed_over(job):
        done = [stage.name for stage in stages_of(job) if stage.checkpoint in job.checkpoints]
        click.echo(
            f"{job.id} was handed over after {', '.join(done) or 'nothing'}, before the time limit. Continue it with "
            f"`penstock security resume {job.id}` or `penstock security worker`.",
            err=True,
        )
        raise click.exceptions.Exit(NOT_READY)


@group("security", exit_codes={**_FAILED, NOT_FOUND: "there is no such job or file", NOT_READY: "not ready yet"})
def command() -> None:
    """Make component schedules (.xlsx) of security drawings (PDF).

    \b
    Examples:
      penstock security sample drawing.pdf
      penstock security process drawing.pdf --company 7central --client "St. Mary's Hospital" --project "Emergency Wing"
      penstock security list --status completed --company 7central
      penstock security download job_mbzlks74_rfi5i0 excel
      penstock security serve --port 8080

    Jobs and files are stored in the folder local_output (LOCAL_OUTPUT_DIR). With STORAGE_MODE=aws they are stored in
    DYNAMODB_TABLE and S3_BUCKET; with --db, in that database. If none of these is set, PENSTOCK_DB applies.
    """


@command.command("sample")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--levels", type=click.IntRange(1, 40), default=2, show_default=True, help="Number of levels.")
@click.option("--doors", type=click.IntRange(2, 16), default=12, show_default=True, help="Doors on each level.")
@click.option("--force", is_flag=True, help="Replace TARGET if it exists.")
@json_option
def sample(target: Path, levels: int, doors: int, force: bool, as_json: bool) -> None:
    """Write a drawing of an invented building to TARGET.

    \b
    Example:
      penstock security sample drawing.pdf --levels 3
    """
    if target.exists() and not force:
        raise click.UsageError(f"{target} is there already. Give --force to replace it.")
    building = Building(levels=levels, doors=doors)
    data = building.pdf()
    target.write_bytes(data)
    counts = building.counts()
    if as_json:
        print_json({"file": str(target), "size": len(data), "counts": counts})
    else:
        text = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        click.echo(f"{target}: {len(data):,} bytes; {sum(counts.values())} components: {text}")


@command.command(
    "process",
    exit_codes={
        FAILED: "the drawing cannot be read",
        WORK_FAILED: "the job has failed, for example because the drawing has no components",
        NOT_READY: "the job stopped before the time limit, and waits for another worker",
    },
)
@click.argument("drawing", type=_FILE)
@click.option("--company", required=True, metavar="NAME", help="The company that owns the job.")
@click.option("--client", required=True, metavar="NAME", help="The client of the project.")
@click.option("--project", required=True, metavar="NAME", help="The project of the drawing.")
@click.option("--context", type=_FILE, help="A document with requirements: .docx, .txt or .md.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Also write the schedule to this file.")
@click.option("--queue", is_flag=True, help="Only queue the job; `penstock security worker` processes it.")
@time_limit_option
@agents_options
@with_place
@json_option
def process(
    drawing: Path,
    company: str,
    client: str,
    project: str,
    context: Path | None,
    out: Path | None,
    queue: bool,
    time_limit: float | None,
    agents: Agents | None,
    as_json: bool,
    place: Place,
) -> None:
    """Make a component schedule of DRAWING, a PDF.

    \b
    Examples:
      penstock security process drawing.pdf --company 7central --client "St. Mary's" --project "Wing" --out s.xlsx
      penstock security process drawing.pdf --company 7central --client Acme --project Tower --db jobs.db --queue
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
    if not queue:
        check_installed()
    check_files(new)  # what cannot be read leaves no folder and no table
    with place.storage(make=True) as storage:
        job = submit_drawing(storage, new)
        if not queue:
            job = _process_here(job, _processor(storage, agents, time_limit, quiet=as_json), time_limit)
        if as_json:
            print_json(job.item())
        elif queue:
            click.echo(f"{job.id} is queued. `penstock security worker` processes it.")
        else:
            show_job(job, stages=False)
        if out is not None and "excel" in job.output_files:
            out.write_bytes(storage.get(job.output_files["excel"], expect=job.saved[job.output_files["excel"]]))
    end_with_state(job)
    if not queue:
        end_handed_over(job)


def _process_here(job: DrawingJob, processor: Processor, time_limit: float | None) -> DrawingJob:
    try:
        return work_until_ended(processor, job, time_limit)
    except KeyboardInterrupt:
        click.echo(f"\nInterrupted: continue it with `penstock security resume {job.id}`.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


def check_installed() -> None:
    """Raises ExtraMissing unless a drawing could be processed: else every job would use up its attempts."""
    require("pypdf", "openpyxl", extra="systems", what="The security assistant")


def _processor(storage: Storage, agents: Agents | None, time_limit: float | None, *, quiet: bool) -> Processor:
    """A time limit that was given is the worker's own; that of each job has a default."""
    seconds = TIME_LIMIT_SECONDS if time_limit is None else time_limit
    return Processor(
        storage,
        agents,
        time_limit_seconds=seconds,
        safety_margin_seconds=min(SAFETY_MARGIN_SECONDS, seconds / 10),
        ends_in_time=time_limit is not None,
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


@command.command("status", exit_codes={**_FAILED, **_NO_JOB})
@job_argument
@company_option
@with_place
@json_option
def status(job_id: str, company: str | None, as_json: bool, place: Place) -> None:
    """Show the stages, files and errors of JOB.

    \b
    Examples:
      penstock security status job_mbzlks74_rfi5i0
      penstock security status job_mbzlks74_rfi5i0 --company 7central --db jobs.db --json
    """
    with place.storage(company) as storage:
        job = storage.job(job_id)
        if as_json:
            print_json(job.item())
        else:
            show_job(job)
    end_with_state(job)


@command.command("events")
@job_argument
@company_option
@with_place
@json_option
def events(job_id: str, company: str | None, as_json: bool, place: Place) -> None:
    """Show the events of JOB in the last 7 days.

    \b
    Example:
      penstock security events job_mbzlks74_rfi5i0 --db jobs.db
    """
    with place.storage(company) as storage:
        events = storage.events(job_id)
    if as_json:
        print_json([event.item() for event in events])
        return
    for event in events:
        took = "" if event.duration_ms is None else f"{event.duration_ms} ms"
        line = f"{utc_text(event.at)}  {event.type:15}  {event.agent:14}  {took:>8}  {event.details.get('message', '')}"
        click.echo(one_line(line.rstrip()))


@command.command("list")
@click.option("--status", type=click.Choice(STATUSES), help="Only jobs with this status.")
@click.option("--client", metavar="NAME", help="Only jobs of this client, of all companies or of --company.")
@click.option("--month", metavar="YYYY-MM", help="Only jobs of this month.")
@click.option("--since", metavar="DATE", help="Only jobs created since this date (2024-01-15) or time.")
@click.option("--until", metavar="DATE", help="Only jobs created up to and including this date.")
@click.option("--interrupted", is_flag=True, help="Only jobs whose worker has died.")
@click.option("--limit", type=click.IntRange(1, LONGEST_PAGE), default=50, show_default=True, help="Maximum number.")
@click.option("--token", metavar="TOKEN", help="The token of the previous page.")
@company_option
@with_place
@json_option
def list_(
    status: str | None,
    client: str | None,
    month: str | None,
    since: str | None,
    until: str | None,
    interrupted: bool,
    limit: int,
    token: str | None,
    company: str | None,
    as_json: bool,
    place: Place,
) -> None:
    """List jobs, newest first: all, or by status, client, month or dates.

    \b
    Examples:
      penstock security list
      penstock security list --status completed
      penstock security list --client "St. Mary's Hospital" --company 7central
      penstock security list --since 2024-01-15 --until 2024-03-10 --db jobs.db --json
      penstock security list --interrupted
    """
    asked = [bool(status), bool(client), bool(month), bool(since or until), interrupted]
    if sum(asked) > 1:
        raise click.UsageError("Give one of --status, --client, --month, --since/--until, --interrupted, or none.")
    with place.storage(company) as storage:
        if interrupted:
            page = JobPage(tuple(itertools.islice(storage.interrupted_jobs(), limit)), None)
        elif status:
            page = storage.query_by_status(status, limit=limit, token=token)
        elif client:
            page = storage.query_by_client(client, limit=limit, token=token)
        elif month:
            page = storage.query_by_month(month, limit=limit, token=token)
        elif not any(asked):
            page = storage.query_all(limit=limit, token=token)
        else:
            page = _between(storage, since, until, limit, token)
    if as_json:
        print_json({"jobs": [job.item() for job in page.jobs], "token": page.token})
        return
    for job in page.jobs:
        click.echo(one_line(line_of(job)))
    if not page.jobs:
        click.echo("No jobs." if token is None else "No more jobs.")
    if page.token is not None:
        click.echo(f"More: --token '{page.token}'", err=True)


def _between(storage: Storage, since: str | None, until: str | None, limit: int, token: str | None) -> JobPage:
    last = storage.now() if until is None else moment_of(until, end=True)
    if since is None:
        raise click.UsageError("--until wants --since: every month between is asked for.")
    return storage.query_by_dates(moment_of(since), last, limit=limit, token=token)


@command.command("download", exit_codes={**_NO_JOB, NOT_READY: "the file is not ready yet"})
@job_argument
@click.argument("kind", type=click.Choice(KINDS))
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="The file to write.  [default: its own name]"
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--url-only", is_flag=True, help="Only print a URL, which is valid for an hour.")
@company_option
@with_place
@json_option
def download(
    job_id: str,
    kind: str,
    out: Path | None,
    force: bool,
    url_only: bool,
    company: str | None,
    as_json: bool,
    place: Place,
) -> None:
    """Download the file KIND of JOB, and check its hash.

    \b
    Examples:
      penstock security download job_mbzlks74_rfi5i0 excel
      penstock security download job_mbzlks74_rfi5i0 evaluation --out e.json --company 7central
    """
    with place.storage(company) as storage:
        job = storage.job(job_id)
        key = file_of_kind(job, kind)
        if key is None:
            raise CommandFailed(
                NOT_READY, f"{job.id} is {job.state.value}, and has no {kind} file yet. Ask again later."
            )
        if url_only:
            url = storage.presigned_url(key)
            print_result({"key": key, "url": url}, url, as_json=as_json)
            return
        target = out or Path(key.rpartition("/")[2])
        if target.exists() and not force:
            raise click.UsageError(f"{target} is there already. Give --force to replace it, or another --out.")
        data = storage.get(key, expect=job.saved.get(key))
    target.write_bytes(data)
    if as_json:
        print_json({"key": key, "file": str(target), "size": len(data)})
    else:
        click.echo(f"{target}: {len(data):,} bytes, as it was saved")


@command.command(
    "resume",
    exit_codes={FAILED: "another worker has the job", **_FAILED, **_NO_JOB, NOT_READY: "stopped by the time limit"},
)
@click.argument("job_id", metavar="[JOB]", required=False)
@company_option
@time_limit_option
@agents_options
@with_place
@json_option
def resume(
    job_id: str | None,
    company: str | None,
    time_limit: float | None,
    agents: Agents | None,
    as_json: bool,
    place: Place,
) -> None:
    """Continue JOB after its last checkpoint; without JOB, continue all jobs whose worker has died.

    \b
    Examples:
      penstock security resume
      penstock security resume job_mbzlks74_rfi5i0 --db jobs.db

    A failed job is retried. A job whose lease another worker holds is not touched.
    """
    check_installed()
    with place.storage(company) as storage:
        processor = _processor(storage, agents, time_limit, quiet=as_json)
        jobs = list(storage.interrupted_jobs()) if job_id is None else [_ready(storage, storage.job(job_id))]
        done = [work_until_ended(processor, job, time_limit) if not job.is_terminal else job for job in jobs]
    if as_json:
        print_json([job.item() for job in done])
    elif not done:
        click.echo("No job was interrupted.")
    else:
        for job in done:
            show_job(job)
    for job in done:
        end_with_state(job)
    for job in done:
        end_handed_over(job)


def _ready(storage: Storage, job: DrawingJob) -> DrawingJob:
    if job.state is not State.FAILED:
        return job
    now = storage.now()
    return storage.change(job, lambda current: transitions.retried(current, now))


@command.command("worker")
@click.option("--once", is_flag=True, help="Stop when the queue is empty.")
@click.option("--idle", type=click.FloatRange(0.05), default=1.0, show_default=True, help="Seconds between polls.")
@time_limit_option
@agents_options
@with_place
@json_option
def worker(
    once: bool, idle: float, time_limit: float | None, agents: Agents | None, as_json: bool, place: Place
) -> None:
    """Process queued jobs, and continue those whose worker has died. Any number of workers may run.

    \b
    Examples:
      penstock security worker --db jobs.db
      penstock security worker --once --time-limit 600 --json

    With --time-limit the worker stops before the limit, even if jobs are queued. Without it, a job that takes longer
    than 15 minutes is requeued at a checkpoint, so that other jobs can run.
    """
    check_installed()
    with place.storage(make=True) as storage:
        processor = _processor(storage, agents, time_limit, quiet=as_json)
        if not as_json:
            click.echo(f"{processor.owner}: jobs of {storage.store.where}", err=True)
        processor.process_all(lambda job: _print_end(job, as_json), once=once, idle_seconds=idle)


def _print_end(job: DrawingJob, as_json: bool) -> None:
    if as_json:
        print_json({"job_id": job.id, "status": job.state.value, "error": job.error})
    else:
        click.echo(f"{job.id} is {job.state.value}")


@command.command("serve")
@listen_options(DEFAULT_PORT)
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A host name to accept. May be repeated.")
@click.option("--concurrency", type=click.IntRange(0, 64), default=1, show_default=True, help="Drawings in parallel.")
@click.option(
    "--tokens",
    type=click.File("r"),
    metavar="FILE",
    help="Lines of COMPANY TOKEN: a token gives access to the jobs of its company only.",
)
@agents_options
@with_place
@json_option
def serve_command(
    host: str,
    port: int,
    hosts: tuple[str, ...],
    concurrency: int,
    tokens: TextIO | None,
    agents: Agents | None,
    as_json: bool,
    place: Place,
) -> None:
    """Accept drawings over HTTP, and process them.

    \b
    Examples:
      penstock security serve --db jobs.db
      curl -F file=@drawing.pdf -F company_id=7central -F client_name=Acme -F project_name=Tower \\
           http://127.0.0.1:8080/process-drawing
      curl 'http://127.0.0.1:8080/status/job_mbzlks74_rfi5i0?company=7central'

    GET /openapi.json describes the API. With --concurrency 0, `penstock security worker` processes the drawings.
    """
    from penstock.systems.security_assistant.http import Tenants, security_api
    from penstock.web.server import serve

    log_warnings()
    check_installed()
    tenants = Tenants(_tokens(tokens.read() if tokens is not None else ""))
    if not is_loopback(host) and not tenants.tokens:
        click.echo(f"Warning: {host} can be reached from other machines, and nobody is asked who they are.", err=True)
    sockets = listen(host, port)  # before anything is made: a taken port leaves nothing behind
    with place.storage(make=True) as storage:
        api = security_api(storage, agents=agents, tenants=tenants, hosts=hosts, concurrency=concurrency)

        def ready(url: str) -> None:
            form = {"url": url, "storage": storage.store.where, "pid": os.getpid()}
            text = f"The security assistant is at {url} (stop with Ctrl+C)"
            click.echo(orjson.dumps(form).decode() if as_json else text)
            sys.stdout.flush()

        serve(api, sockets, ready)


def _tokens(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise click.UsageError(f"Line {number} of the tokens is not COMPANY TOKEN.")
        found[words[1]] = part_of(words[0], "company_id")
    return found


@command.command("cleanup")
@click.option(
    "--older-than", type=AgeType(), default="24h", show_default=True, help="Only remove files older than this."
)
@with_place
@dry_run_option
@yes_option
@json_option
def cleanup(older_than: float, dry_run: bool, yes: bool, as_json: bool, place: Place) -> None:
    """Remove expired jobs (30 days after they ended), and files that belong to no job.

    \b
    Examples:
      penstock security cleanup --dry-run
      penstock security cleanup --older-than 7d --yes
    """
    with place.storage() as storage:
        names: list[str] = []
        found = storage.clean_up(older_than_seconds=older_than, dry_run=True, tell=names.append)
        files = found.files.orphans + found.files.leftovers
        if not as_json:
            for name in names:
                click.echo(f"  - {name}")
            text = f"{count_text(found.jobs, 'expired job')}, {count_text(files, 'file')} of no job"
            click.echo(f"Plan: {text} ({found.files.size:,} bytes).")
        if (found.jobs or files) and not dry_run:
            confirm(f"Remove them from {storage.store.where}?", yes=yes)
            found = storage.clean_up(older_than_seconds=older_than)
            files = found.files.orphans + found.files.leftovers
            if not as_json:
                click.echo(f"Removed {count_text(found.jobs, 'job')} and {count_text(files, 'file')}.")
    if as_json:
        print_json({"jobs": found.jobs, "files": files, "bytes": found.files.size, "names": names, "dry_run": dry_run})


@command.command("export")
@click.argument("target", type=click.Path(file_okay=False))
@click.option("--replace", is_flag=True, help="Replace jobs that exist in another version.")
@company_option
@with_place
@dry_run_option
@json_option
def export(target: str, replace: bool, company: str | None, dry_run: bool, as_json: bool, place: Place) -> None:
    """Export all jobs and their events to TARGET/jobs.json. Files are not copied.

    \b
    Example:
      penstock security export local_output --db jobs.db

    The command may be repeated: jobs that were exported are skipped.
    """
    with place.storage() as storage:
        moved = copy_jobs(
            storage.store,
            JsonJobStore(target),
            now=storage.now(),
            company=company,
            replace_existing=replace,
            dry_run=dry_run,
        )
    show_moved(moved, f"{target}/jobs.json", dry_run=dry_run, as_json=as_json)


def show_moved(moved: Moved, target: str, *, dry_run: bool, as_json: bool) -> None:
    """Exit code 1 if jobs were left as they are in the target, in another version."""
    if as_json:
        print_json(asdict(moved) | {"dry_run": dry_run})
    else:
        verb = "Would copy" if dry_run else "Copied"
        text = f"{count_text(moved.copied, 'job')} and {count_text(moved.events, 'event')}"
        click.echo(f"{verb} {text} to {target}; {moved.same} were there already.")
        if moved.replaced:
            click.echo(f"{'Would replace' if dry_run else 'Replaced'} {moved.replaced}.")
        for key in moved.kept:
            click.echo(f"  kept as it is there: {key}. Give --replace to replace it.", err=True)
    if moved.kept:
        raise click.exceptions.Exit(1)


@command.command("import")
@click.argument("source", type=click.Path(exists=True, file_okay=False))
@click.option("--replace", is_flag=True, help="Replace jobs that exist in another version.")
@company_option
@with_place
@dry_run_option
@json_option
def import_(source: str, replace: bool, company: str | None, dry_run: bool, as_json: bool, place: Place) -> None:
    """Import the jobs and events of SOURCE/jobs.json into the storage. Files are not copied.

    \b
    Example:
      penstock security import local_output --db aws://eu-west-2 --files s3://security-assistant-files
    """
    if not (Path(source) / JOBS_FILE).is_file():
        raise click.UsageError(f"{source} has no {JOBS_FILE}.")
    with place.storage(make=True) as storage:
        moved = copy_jobs(
            JsonJobStore(source),
            storage.store,
            now=storage.now(),
            company=company,
            replace_existing=replace,
            dry_run=dry_run,
        )
        where = storage.store.where
    show_moved(moved, where, dry_run=dry_run, as_json=as_json)
