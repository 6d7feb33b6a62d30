"""`penstock excel`: reports of a project's products and users, as .xlsx files."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from penstock.cli.jobs.worker import stop_on_signals
from penstock.cli.kit.databases import Absent, open_database
from penstock.cli.kit.exit_codes import FAILED, NOT_FOUND, WORK_FAILED, CommandFailed
from penstock.cli.kit.groups import group
from penstock.cli.kit.logs import log_warnings
from penstock.cli.kit.options import db_option, dry_run_option, json_option, listen_options, place_options, resumable
from penstock.cli.kit.output import count_text, one_line, print_json, print_result, size_text
from penstock.clock import utc_text
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.files import Files, open_files
from penstock.jobs.app import FILES_VARIABLE
from penstock.jobs.model.job import JobNotFound
from penstock.server.auth.authorization import is_loopback
from penstock.server.server import listen
from penstock.systems.excel_reports.records import (
    DEFAULT_TTL_HOURS,
    TABLE_VARIABLE,
    TTL_VARIABLE,
    BadReport,
    JobWithLogs,
    Log,
    ReportJob,
    Settings,
    checked_hours,
    job_form,
    log_form,
)
from penstock.systems.excel_reports.tables import JOBS
from penstock.systems.schema_variants import SchemaVariant

if TYPE_CHECKING:  # it stands on an extra, which help and completion do without
    from penstock.systems.excel_reports.service import ExcelReports

DEFAULT_PORT = 8080
_LOOK_SECONDS = 0.05
_NOT_FOUND = {NOT_FOUND: "there is no such job"}
_CODES = {WORK_FAILED: "the report has failed", **_NOT_FOUND}

job_argument = click.argument("job_id", metavar="JOB")


@dataclass(frozen=True, slots=True)
class Place:
    """Where reports are: --db, --files, --table, --layout, --ttl-hours."""

    target: str
    files: str | None
    layout: SchemaVariant | None
    settings: Settings

    @contextmanager
    def open(self, absent: Absent = "refused", data: ReportData | None = None) -> Iterator[ExcelReports]:
        """What is not found, or cannot be, ends with its own exit code. Raises ExtraMissing before a file is made."""
        from penstock.systems.excel_reports.service import ExcelReports

        given = {} if data is None else data.service_options()
        with open_database(self.target, absent, maker="penstock excel generate") as db, ExitStack() as stack:
            try:
                service = ExcelReports(db, self._home(), layout=self.layout, settings=self.settings, **given)
                stack.callback(service.app.close)
                if absent == "made":
                    service.prepare()
                yield service
            except ResourceNotFoundException as error:
                raise PenstockError(
                    f"{self.target} has no table {self.settings.table}: no report has been asked for yet, or the jobs "
                    f"are in another one (--table, {TABLE_VARIABLE})."
                ) from error
            except JobNotFound as error:
                raise CommandFailed(NOT_FOUND, str(error)) from error
            except BadReport as error:
                raise click.UsageError("\n".join(error.errors)) from error

    def _home(self) -> Files:
        if self.files is not None:
            return open_files(self.files)
        if "://" in self.target:
            raise click.UsageError("Where do the reports go? Give --files FOLDER or --files s3://bucket/prefix.")
        return open_files(f"{self.target}.files")


@dataclass(frozen=True, slots=True)
class ReportData:
    """Where rows come from and what the sheets look like: --source, --template."""

    sources: tuple[str, ...]
    template: str | None

    def service_options(self) -> dict[str, Any]:
        """Checked before a database is opened. Raises click.UsageError."""
        from penstock.systems.excel_reports.book.template import FILE_NAME, read_template
        from penstock.systems.excel_reports.sources.places import check_places
        from penstock.systems.excel_reports.sources.source import parse_source

        if self.template and not self.sources:
            raise click.UsageError("--template describes your own data: give --source as well.")
        try:
            found = [parse_source(text) for text in self.sources]
            # A worker may run in another folder: a path is stored whole.
            sources = [str(Path(one.where).absolute()) if one.place == "folder" else one.text for one in found]
            beside = [Path(one.where) / FILE_NAME for one in found if one.place == "folder"]
            file = Path(self.template) if self.template else next((one for one in beside if one.is_file()), None)
            check_places(sources)
            return {"sources": sources, "template": None if file is None else read_template(file)}
        except BadReport as error:
            raise click.UsageError("\n".join(error.errors)) from error


def _place(target: str, files: str | None, table: str, layout: SchemaVariant | None, ttl_hours: float) -> Place:
    try:
        settings = Settings(table, checked_hours(ttl_hours))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return Place(target, files, layout, settings)


with_place = place_options(
    _place,
    db_option(help="Where the jobs live"),
    click.option(
        "--files",
        envvar=FILES_VARIABLE,
        metavar="HOME",
        help=f"Where the reports go: a folder, or s3://bucket/prefix. Also {FILES_VARIABLE}.  [default: FILE.files]",
    ),
    click.option(
        "--table",
        default=JOBS,
        show_default=True,
        envvar=TABLE_VARIABLE,
        metavar="NAME",
        help=f"The table of jobs. Also {TABLE_VARIABLE}.",
    ),
    click.option(
        "--layout",
        type=click.Choice(["safe", "compat"]),
        help="The table's key: jobId and recordId, or recordId alone.  [default: the table's own; safe for a new one]",
    ),
    click.option(
        "--ttl-hours",
        type=float,
        default=DEFAULT_TTL_HOURS,
        show_default=True,
        envvar=TTL_VARIABLE,
        help=f"Hours that a job is kept. Also {TTL_VARIABLE}.",
    ),
)

source_option = click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="SOURCE",
    help="Your own data: a folder or file of CSV or JSON, a URL that returns JSON, table:NAME for a DynamoDB table, or "
    "MODULE:FUNCTION for Python. May be repeated.",
)
template_option = click.option(
    "--template",
    type=click.Path(dir_okay=False, exists=True),
    metavar="FILE",
    help="What the sheets look like, in TOML.  [default: report.toml in the source's folder, else inferred]",
)


def job_line(job: ReportJob) -> str:
    return f"{job.job_id}  {job.status:<10}  {job.progress:>5g} %  {job.step_name:<18}  {job.id_project}"


def log_line(log: Log) -> str:
    """`  12   80 %  downloading-images  downloaded=24`."""
    shown = {name: value for name, value in log.fields.items() if not isinstance(value, dict | list)}
    facts = "  ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in shown.items()
    )
    return f"{log.number:>4}  {log.progress:>5g} %  {log.step_name:<18}  {facts}".rstrip()


def end_with_state(job: ReportJob) -> None:
    """Exit code 3 for a report that has failed."""
    if job.status == "failed":
        raise click.exceptions.Exit(WORK_FAILED)


@group("excel", exit_codes=_CODES)
def command() -> None:
    """Make .xlsx reports of a project's products and users, and record their progress.

    \b
    Examples:
      penstock excel generate mlab_bodwassho_usa_3 --db reports.db
      penstock excel status job_mbzlks74_rfi5i0 --db reports.db
      penstock excel serve --db reports.db --port 8080

    The table is created if it is missing; `penstock tables apply|plan|destroy excel-reports` manages it too. JOBS_TABLE
    is its name, and JOB_TTL_HOURS is how long a job and its files are kept. The layout of the table is detected.
    """


@command.command("generate", exit_codes={WORK_FAILED: "the report has failed"})
@click.argument("project")
@with_place
@source_option
@template_option
@click.option("--products", type=int, help="Number of products.  [default: 200]")
@click.option("--users", type=int, help="Number of users.  [default: 60]")
@click.option("--images", type=int, help="Number of rows with a picture.  [default: 24; 500 with --source]")
@click.option("--by-category", "byCategory", is_flag=True, default=None, help="Add a sheet for each category.")
@click.option("--seed", type=int, help="Another seed makes other data.")
@click.option("--title", help="The title on the cover.  [default: the project's name]")
@click.option(
    "--no-wait", is_flag=True, help="Only queue the job; a worker or `penstock excel serve` makes the report."
)
@json_option
def generate(
    project: str,
    place: Place,
    sources: tuple[str, ...],
    template: str | None,
    no_wait: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Make a report of PROJECT, and show its progress. Without --source, the data is made up.

    \b
    Examples:
      penstock excel generate march --source data/ --db reports.db
      penstock excel generate march --source data/ --template report.toml --db reports.db
      penstock excel generate march --source https://example.org/orders.json --db reports.db
      penstock excel generate march --source table:Products --source reports:orders --db reports.db
      penstock excel generate mlab_bodwassho_usa_3 --db reports.db
      penstock excel generate mlab_bodwassho_usa_3 --db reports.db --products 20000 --by-category
      penstock excel generate mlab_bodwassho_usa_3 --db aws://us-west-2 --files s3://bucket/reports --no-wait

    If it is interrupted or killed, `penstock excel worker --burst` continues it.
    """
    given = {name: value for name, value in options.items() if value is not None}
    _check_options(given, sources)
    with place.open("made", ReportData(sources, template)) as service:
        job = service.generate(project, given)
        if no_wait:
            print_result(job_form(job), job.job_id, as_json=as_json)
            return
        with resumable(f"{job.job_id} is not finished; `penstock excel worker --burst` continues it."):
            found = _watch(service, job.job_id, quiet=as_json)
        if as_json:
            print_json(job_form(found.job))
        else:
            _print_report(found)
        end_with_state(found.job)


def _check_options(given: dict[str, Any], sources: tuple[str, ...]) -> None:
    """Refuses what cannot be before a file or a table is made."""
    from penstock.systems.excel_reports.options import checked_options

    made_up = [name for name in ("products", "users", "seed") if name in given]
    if sources and made_up:
        raise click.UsageError(f"--{made_up[0]} is for a project that is made up, and --source is your own data.")
    try:
        checked_options(given)
    except BadReport as error:
        raise click.UsageError("\n".join(error.errors)) from error


def _watch(service: ExcelReports, job_id: str, *, quiet: bool) -> JobWithLogs:
    """Works in a thread until the job has ended; each record is shown once."""
    worker = service.worker(concurrency=1)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    seen = 0
    try:
        while True:
            ended = not thread.is_alive()
            job = service.jobs.get_job(job_id)  # one item, in either layout; its history only if there is more
            if job.is_terminal or ended or (not quiet and (job.last_number or 0) > seen):
                found = service.read(job_id)
                seen = _show_new(found, seen, quiet)
                if found.job.is_terminal or ended:
                    return found
            time.sleep(_LOOK_SECONDS)
    finally:
        worker.stop("the command ends")
        thread.join()


def _show_new(found: JobWithLogs, seen: int, quiet: bool) -> int:
    for log in found.progress:
        if log.number > seen and not quiet:
            click.echo(log_line(log), err=True)
    return max([seen, *(log.number for log in found.logs)])


def _print_report(found: JobWithLogs) -> None:
    job = found.job
    click.echo(job_line(job))
    if job.result is not None:
        for note in job.result.get("statistics", {}).get("notes", ()):
            click.echo(f"note: {one_line(note)}")
        click.echo(f"made in {job.result['processingTime']}: {job.result['downloadUrl']}")
    if job.error is not None:
        click.echo(f"{job.error['category']}: {job.error['message']}", err=True)


@command.command("status", exit_codes=_CODES)
@job_argument
@with_place
@json_option
def status(job_id: str, place: Place, as_json: bool) -> None:
    """Show the status of a report: its progress, its file or its error.

    \b
    Examples:
      penstock excel status job_mbzlks74_rfi5i0 --db reports.db
      penstock excel status job_mbzlks74_rfi5i0 --db reports.db --json
    """
    with place.open() as service:
        job = service.read(job_id).job
    if as_json:
        print_json(job_form(job))
    else:
        _show(job)
    end_with_state(job)


def _show(job: ReportJob) -> None:
    click.echo(job_line(job))
    click.echo(f"created    {utc_text(job.created_at)}")
    click.echo(f"updated    {utc_text(job.updated_at)}")
    if job.completed_at is not None:
        click.echo(f"completed  {utc_text(job.completed_at)}")
    if job.result is not None:
        click.echo(f"file       {job.result['fileName']}, made in {job.result['processingTime']}")
        click.echo(f"download   {job.result['downloadUrl']}")
        statistics = job.result.get("statistics", {})
        for name, value in statistics.items():
            if isinstance(value, int | float):
                click.echo(f"           {name} {value:,}")
        for note in statistics.get("notes", ()):
            click.echo(f"note       {one_line(note)}")
    if job.error is not None:
        click.echo(f"error      {job.error['category']}: {job.error['message']}")


@command.command("logs", exit_codes=_NOT_FOUND)
@job_argument
@with_place
@json_option
def logs(job_id: str, place: Place, as_json: bool) -> None:
    """Show the numbered progress records of a job, in order.

    \b
    Example:
      penstock excel logs job_mbzlks74_rfi5i0 --db reports.db
    """
    with place.open() as service:
        logs = service.read(job_id).logs
    if as_json:
        print_json([log_form(log) for log in logs])
        return
    for log in logs:
        click.echo(one_line(log_line(log)))


@command.command("list")
@with_place
@click.option(
    "--status", type=click.Choice(["pending", "processing", "completed", "failed"]), help="Only jobs with this status."
)
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Maximum number of jobs.")
@json_option
def list_(place: Place, status: str | None, limit: int, as_json: bool) -> None:
    """List jobs, newest first.

    \b
    Examples:
      penstock excel list --db reports.db
      penstock excel list --db reports.db --status failed --json

    The table has no index, so the command reads the whole table.
    """
    with place.open() as service:
        jobs = service.jobs.list_jobs(status=status, limit=limit)
    if as_json:
        print_json([job_form(job) for job in jobs])
        return
    for job in jobs:
        click.echo(one_line(job_line(job)))
    if not jobs:
        click.echo("There are none.", err=True)


@command.command("retry", exit_codes={FAILED: "the report has not failed", **_NOT_FOUND})
@job_argument
@with_place
@json_option
def retry(job_id: str, place: Place, as_json: bool) -> None:
    """Retry a failed report. The steps that were completed are reused.

    \b
    Example:
      penstock excel retry job_mbzlks74_rfi5i0 --db reports.db && penstock excel worker --burst --db reports.db
    """
    with place.open() as service:
        job = service.retry(job_id)
    print_result(job_form(job), job_line(job), as_json=as_json)


@command.command("worker", exit_codes={WORK_FAILED: "with --burst: a report has failed"})
@with_place
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="MODULE:FUNCTION",
    help="A Python function that may be called as a source. May be repeated.",
)
@click.option("--concurrency", type=click.IntRange(1, 64), default=2, show_default=True, help="Reports in parallel.")
@click.option("--burst", is_flag=True, help="Stop when the queue is empty.")
@json_option
def worker(place: Place, sources: tuple[str, ...], concurrency: int, burst: bool, as_json: bool) -> None:
    """Make the queued reports, and continue those whose worker has died.

    \b
    Examples:
      penstock excel worker --db reports.db
      penstock excel worker --db reports.db --burst
      penstock excel worker --db reports.db --source reports:orders

    Each job names its folders, files, URLs or tables. A Python function is called only if --source names it.
    Ctrl-C (or SIGTERM) stops the worker gracefully; a second one stops it at once.
    """
    log_warnings()
    with place.open("made", ReportData(sources, None)) as service:
        worker = service.worker(
            concurrency=concurrency,
            until_empty=burst,
            on_end=lambda job, how: click.echo(f"{job.id} {how.replace('_', ' ')}", err=True),
        )
        stop_on_signals(worker)
        with service.expired_files.removing():
            counts = worker.run()
    if as_json:
        print_json({"completed": counts.completed, "failed": counts.failed, "retried": counts.retried})
    if burst and counts.failed:
        raise click.exceptions.Exit(WORK_FAILED)


@command.command("cleanup")
@with_place
@dry_run_option
@json_option
def cleanup(place: Place, dry_run: bool, as_json: bool) -> None:
    """Remove the files of expired jobs. Workers also do this, once an hour.

    \b
    Examples:
      penstock excel cleanup --db reports.db --dry-run
      penstock excel cleanup --db reports.db
    """
    with place.open() as service:
        names: list[str] = []
        found = service.expired_files.remove(dry_run=dry_run, tell=names.append)
    if as_json:
        form = {"jobs": found.jobs, "files": found.files, "bytes": found.size, "names": names, "dry_run": dry_run}
        print_json(form)
        return
    for name in names:
        click.echo(f"  - {one_line(name)}")
    verb = "Would remove" if dry_run else "Removed"
    click.echo(f"{verb} {count_text(found.files)} of {count_text(found.jobs, 'expired job')}, {size_text(found.size)}.")


@command.command("serve")
@with_place
@source_option
@template_option
@listen_options(DEFAULT_PORT)
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A host name to accept. May be repeated.")
@click.option("--concurrency", type=click.IntRange(0, 64), default=1, show_default=True, help="Reports in parallel.")
@json_option
def serve_command(
    place: Place,
    sources: tuple[str, ...],
    template: str | None,
    host: str,
    port: int,
    hosts: tuple[str, ...],
    concurrency: int,
    as_json: bool,
) -> None:
    """Accept requests for reports over HTTP, and make the reports.

    \b
    Examples:
      penstock excel serve --db reports.db
      penstock excel serve --db reports.db --source 'data/{project}'
      curl -i -H 'Content-Type: application/json' -d '{"idProject": "mlab_bodwassho_usa_3"}' \\
           http://127.0.0.1:8080/generate-report
      curl http://127.0.0.1:8080/jobs/job_mbzlks74_rfi5i0

    With --source, every report uses that data; {project} in it is the project of the request. A request cannot choose
    another source. GET /openapi.json describes the API. With --concurrency 0, `penstock excel worker` makes the
    reports.
    """
    from penstock.systems.excel_reports.http import excel_api
    from penstock.web.server import serve

    log_warnings()
    if not is_loopback(host):
        click.echo(f"Warning: {host} can be reached from other machines, and nobody is asked who they are.", err=True)
    sockets = listen(host, port)  # before the file is made: a taken port leaves nothing behind
    with place.open("made", ReportData(sources, template)) as service:

        def ready(url: str) -> None:
            form = {"url": url, "db": place.target, "pid": os.getpid()}
            text = orjson.dumps(form).decode() if as_json else f"Excel reports are at {url} (stop with Ctrl+C)"
            click.echo(text)
            sys.stdout.flush()

        serve(excel_api(service, hosts=hosts, concurrency=concurrency), sockets, ready)
