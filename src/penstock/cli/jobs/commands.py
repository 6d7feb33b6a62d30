"""`penstock jobs`: see jobs, wait for them, and change them."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from penstock.cli.kit import databases
from penstock.cli.kit.completion import complete_jobs, complete_tables
from penstock.cli.kit.exit_codes import FAILED, LEASE_LOST, NOT_FOUND, NOT_READY, WORK_FAILED, CommandFailed, end_with
from penstock.cli.kit.groups import group
from penstock.cli.kit.options import (
    FILES_VARIABLE,
    confirm,
    db_option,
    dry_run_option,
    json_option,
    out_file_option,
    token_option,
    yes_option,
)
from penstock.cli.kit.output import has_reader, one_line, write_text
from penstock.client.database import Database
from penstock.clock import span, utc_text
from penstock.errors import PenstockError, ResourceNotFoundException, ValidationException
from penstock.jobs import iam_policy
from penstock.jobs.forms import entry_form, history_form, job_form, why_unread
from penstock.jobs.layouts.tables import DEFAULT_TABLE
from penstock.jobs.model.derived_state import STATE_NAMES, parse_state
from penstock.jobs.model.job import Entry, History, Job, JobNotFound, Payload
from penstock.jobs.model.json_text import from_json, to_json
from penstock.jobs.model.state import State
from penstock.jobs.sources import AllJobs, JobQuery, JobSource, StoreSource
from penstock.jobs.store.patience import ask_until
from penstock.jobs.store.store import JobStore
from penstock.leases import LeaseLost
from penstock.registry import job_source_types

if TYPE_CHECKING:
    from penstock.files import Files

F = TypeVar("F", bound=Callable[..., Any])

_NAMES_CHARACTERS = 50
_CHILDREN_SHOWN = 5
_STEP_CHARACTERS = 24
_PAYLOAD_CHARACTERS = 300
_PAGE = 500
_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 1.0

_NO_SUCH_JOB = {NOT_FOUND: "there is no such job"}
_ENDED_BADLY = {
    FAILED: "failed, or the database did not answer",
    WORK_FAILED: "it has failed or was cancelled",
    NOT_READY: "it had not ended when the timeout was over",
    **_NO_SUCH_JOB,
}
_ONE_REFUSED = {WORK_FAILED: "one could not be changed", **_NO_SUCH_JOB}


_COPIES: Final = {
    "pull": ("penstock.cli.jobs.copies:pull", "Copy a job from any database into a local file."),
    "debug": ("penstock.cli.jobs.copies:debug", "Run a pulled job here, in the foreground, also under pdb."),
    "fork": ("penstock.cli.jobs.copies:fork", "Make a new job from the checkpoints of an old one."),
}


@group("jobs", lazy=_COPIES, exit_codes={WORK_FAILED: "the job has failed or was cancelled", **_NO_SUCH_JOB})
def command() -> None:
    """List jobs, watch them, explain them, cancel and retry them.

    \b
    Examples:
      penstock jobs list --db reports.db --state failed
      penstock jobs watch job_mbzlks74_rfi5i0 --db reports.db
      penstock jobs why job_mbzlks74_rfi5i0 --db reports.db
      penstock jobs retry --state failed --task report --db reports.db --dry-run

    Without --db, PENSTOCK_DB names the database, or the only .db file of this folder is taken.
    """


# ── options, and the store ───────────────────────────────────────────────────────────────────────

job_argument = click.argument("job_id", metavar="JOB", shell_complete=complete_jobs)
table_option = click.option(
    "--table", envvar="PENSTOCK_JOBS_TABLE", metavar="NAME", shell_complete=complete_tables,
    help=f"Their table. [for a queue {DEFAULT_TABLE}; for jobs every table that has any]",
)  # fmt: skip
_STATES = [state.value for state in STATE_NAMES]
_state_type = click.Choice(_STATES)
_timeout_option = click.option(
    "--timeout", type=click.FloatRange(0), metavar="SECONDS", help="Give up after so long (exit code 5)."
)


def store_options(function: F) -> F:
    """--db and --table."""
    with_table = table_option(function)
    return db_option(default=databases.only_database_file, help="Where the jobs live")(with_table)


@contextmanager
def open_jobs(
    target: str,
    table: str | None,
    job_ids: Sequence[str] = (),
    *,
    through: Callable[[Database], Database] | None = None,
) -> Iterator[AllJobs]:
    """The jobs of a table, or of every table that has any: also those of systems. Where all of `job_ids` are in the
    default table, the others are not looked at. `through` wraps the database before anything is asked of it.

    A job that is not found and a lost lease end the command with their own exit codes.
    """
    with databases.open_database(target, maker="penstock worker") as opened:
        db = opened if through is None else through(opened)
        files = files_of(target)
        try:
            if table is None and job_ids and _are_in_default_table(db, job_ids):
                table = DEFAULT_TABLE
            if table is None:
                jobs = AllJobs.in_database(db, job_source_types(), files=files)
                if not jobs.sources:
                    table = DEFAULT_TABLE  # which is not there: the error says it
            if table is not None:
                jobs = AllJobs([StoreSource(JobStore.of_table(db, table, files=files))])
            yield jobs
        except ResourceNotFoundException as error:
            raise PenstockError(
                f"{target} has no table {table}: no app has used it yet, or its jobs are in another one (--table)."
            ) from error
        except ValidationException as error:
            raise PenstockError(
                f"{table} of {target} is no table of jobs ({error}): name theirs with --table."
            ) from error
        except JobNotFound as error:
            raise CommandFailed(NOT_FOUND, str(error)) from error
        except LeaseLost as error:
            raise CommandFailed(LEASE_LOST, str(error)) from error


def _are_in_default_table(db: Database, job_ids: Sequence[str]) -> bool:
    try:
        return len(JobStore.of_table(db, DEFAULT_TABLE).get_existing(job_ids)) == len(set(job_ids))
    except ResourceNotFoundException:
        return False


@contextmanager
def open_store(target: str, table: str | None) -> Iterator[JobStore]:
    """The job store of a table; the errors are those of `open_jobs`."""
    with open_jobs(target, table or DEFAULT_TABLE) as jobs:
        store = jobs.sources[0].store
        assert store is not None
        yield store


def files_of(target: str) -> Files | None:
    """Where the app keeps its files: where PENSTOCK_FILES says, else beside a database file if it has any."""
    beside = f"{target}.files"
    place = os.environ.get(FILES_VARIABLE) or (beside if "://" not in target and Path(beside).is_dir() else None)
    if place is None:
        return None
    from penstock.files import open_files

    return open_files(place)


# ── looking ──────────────────────────────────────────────────────────────────────────────────────


@command.command("list", short_help="List jobs, newest first.")
@store_options
@click.option("--state", type=_state_type, metavar="STATE", help=f"Only those that are {', '.join(_STATES)}.")
@click.option("--task", metavar="NAME", help="Only those of this task.")
@click.option("--tenant", metavar="NAME", help="Only those of this tenant; '' for those of none.")
@click.option("--tag", metavar="NAME", help="Only those that have this tag.")
@click.option("--since", metavar="TIME", help="Only those made since: 2026-11-15, 2026-11-15T10:00Z, or 3h, 2d ago.")
@click.option("--until", metavar="TIME", help="Only those made until then.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most this many.")
@token_option
@json_option
def list_(
    target: str,
    table: str | None,
    state: str | None,
    since: str | None,
    until: str | None,
    token: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """List jobs, newest first: of apps, of pipelines, and of every system.

    \b
    Examples:
      penstock jobs list --db reports.db
      penstock jobs list --db reports.db --state failed --task report --since 1d
      penstock jobs list --db reports.db --state blocked --tenant acme
      penstock jobs list --db aws://eu-west-2 --json --limit 1000
    """
    stored, derived = (None, None) if state is None else parse_state(state)
    query = JobQuery(
        state=stored,
        derived=derived,
        since=None if since is None else parse_moment(since),
        until=None if until is None else parse_moment(until),
        before=token,
        **options,
    )
    with open_jobs(target, table) as jobs:
        page = jobs.find(query)
    if as_json:
        forms = [{"system": page.sources[job.id].system, **job_form(job)} for job in page.jobs]
        print_line({"jobs": forms, "token": page.token, "notes": page.notes})
        return
    if not page.jobs:
        click.echo("No jobs." if token is None else "No more jobs.")
    is_one = len({source.system for source in jobs.sources}) == 1
    rows = [
        (one_line(job.id), job.state.value, *(() if is_one else (page.sources[job.id].system,)), one_line(job.task))
        for job in page.jobs
    ]
    widths = [max((len(text) for text in texts), default=0) for texts in zip(*rows, strict=True)]
    for job, row in zip(page.jobs, rows, strict=True):
        click.echo(_job_line(job, "  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True))))
    for note in page.notes:
        click.echo(note, err=True)
    if page.token is not None:
        click.echo(f"More: --token '{page.token}'", err=True)


def _job_line(job: Job, names: str) -> str:
    step = job.step if len(job.step) <= _STEP_CHARACTERS else job.step[: _STEP_CHARACTERS - 1] + "…"
    progress = f"{job.progress:3.0f}% {step}" if job.entries or job.is_terminal else ""
    tenant = f"  {job.tenant}" if job.tenant else ""
    age = span(time.time() - job.created_at)
    return one_line(f"{names}  {age:>8} old  {progress}{tenant}".rstrip())


def parse_moment(text: str) -> float:
    """A time, or a span of time before now: `3h`, `2d`, `90m`, `30s`."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    if text[-1:] in units and text[:-1].isascii() and text[:-1].isdigit():
        return time.time() - int(text[:-1]) * units[text[-1]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no time; 2026-11-15, 2026-11-15T10:00Z and 3h are.") from None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


@command.command("show", short_help="Show a job with its history.", exit_codes=_NO_SUCH_JOB)
@job_argument
@store_options
@click.option(
    "--log", "lines", type=click.IntRange(0), default=20, show_default=True, help="How many of the last entries."
)
@json_option
def show(job_id: str, target: str, table: str | None, lines: int, as_json: bool) -> None:
    """Show a job with its history: arguments, progress, checkpoints, events, files.

    \b
    Examples:
      penstock jobs show job_mbzlks74_rfi5i0 --db reports.db
      penstock jobs show job_mbzlks74_rfi5i0 --db reports.db --json
    """
    with open_jobs(target, table, [job_id]) as jobs:
        source, history = jobs.history(job_id)
        if as_json:
            print_line({"system": source.system, **history_form(history, source.store)})
            return
        _print_history(history, source, lines)


def _print_history(history: History, source: JobSource, lines: int) -> None:
    job, store = history.job, source.store
    click.echo(one_line(f"{job.id}  {job.task}  {job.state.value}  {job.progress:.0f}%  {job.step}".rstrip()))
    click.echo(_why(source, job))
    if job.pulled_from:
        click.echo(one_line(f"copy         from {job.pulled_from}"))
    if store is not None:
        click.echo(f"arguments    {_payload_text(store, job, job.args)}")
    if store is not None and job.result is not None:
        click.echo(f"result       {_payload_text(store, job, job.result)}")
    if job.error is not None and job.error.trace:
        click.echo("error        " + job.error.trace.rstrip().replace("\n", "\n             "))
    if store is not None and job.child_count:
        some = [child.id for child in itertools.islice(store.workflows.made(job.id), _CHILDREN_SHOWN)]
        more = f" and {job.child_count - len(some):,} more" if job.child_count > len(some) else ""
        click.echo(f"children     {', '.join(some)}{more}")
    if job.parent_id is not None:
        click.echo(f"parent       {job.parent_id}")
    for file in history.files:
        click.echo(f"file         {file.name}  {file.saved.size:,} bytes  sha256 {file.saved.sha256[:12]}…")
    for point in history.checkpoints:
        click.echo(
            f"checkpoint   {point.name}  version {point.version}  {utc_text(point.at)}  {point.summary}".rstrip()
        )
    for event in history.events:
        text = f"{event.label}  attempt {event.attempt}  {event.owner}  {event.detail}"
        click.echo(one_line(f"event        {utc_text(event.at)}  {text}".rstrip()))
    for entry in history.entries[-lines:] if lines else ():
        click.echo("log          " + entry_line(entry))


def _why(source: JobSource, job: Job) -> str:
    """One sentence on what a job does or waits for."""
    if source.store is not None:
        from penstock.jobs.explain import explain, gather

        return explain(job, gather(source.store, job))
    reason = "" if job.error is None else f" {job.error.kind}: {job.error.message}"
    return one_line(f"{job.id} is {job.state.value}. It is a job of {source.system} (`{source.commands}`).{reason}")


def _payload_text(store: JobStore, job: Job, payload: Payload) -> str:
    """A payload in short, or why it cannot be read."""
    try:
        text = to_json(store.load_to_show(job, payload), "payload").lstrip()
    except PenstockError as error:
        return f"({why_unread(store, job, payload, error)})"
    if len(text) <= _PAYLOAD_CHARACTERS:
        return text
    return text[: _PAYLOAD_CHARACTERS - 1] + f"… ({len(text):,} characters)"


@command.command("why", short_help="Say why a job is not running.", exit_codes=_NO_SUCH_JOB)
@job_argument
@store_options
@json_option
def why(job_id: str, target: str, table: str | None, as_json: bool) -> None:
    """Say in one sentence why a job is not running: who holds it, what it waits for, what is missing.

    \b
    Example:
      penstock jobs why job_mbzlks74_rfi5i0 --db reports.db
    """
    with open_jobs(target, table, [job_id]) as jobs:
        source, history = jobs.history(job_id)
        job, sentence = history.job, _why(source, history.job)
        print_result({"id": job.id, "state": job.state.value, "why": sentence}, sentence, as_json=as_json)


@command.command("workers", short_help="List the live workers.")
@store_options
@json_option
def workers(target: str, table: str | None, as_json: bool) -> None:
    """List the workers that have sent a heartbeat in the last minute.

    \b
    Example:
      penstock jobs workers --db reports.db
    """
    from penstock.jobs.worker.registry import WorkerRegistry

    with open_store(target, table) as store:
        now = store.clock.now()
        alive = WorkerRegistry(store.db, store.layout).workers(now)
        if as_json:
            print_line([asdict(worker) for worker in alive])
            return
        if not alive:
            click.echo("No worker: start one with `penstock worker MODULE:APP`.")
        for worker in alive:
            busy = f"{worker.running} of {worker.concurrency} busy"
            spent = f"{worker.done:,} done  {worker.read_units:,.0f} read units  up {span(now - worker.started_at)}"
            click.echo(one_line(f"{worker.name}  {busy}  {spent}"))
            click.echo(one_line(f"  {', '.join(worker.queues)}: {names_text(worker.tasks)}"))


@command.command("report", short_help="Write all of a job into one HTML file.", exit_codes=_NO_SUCH_JOB)
@job_argument
@store_options
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="By default JOB.html.")
@json_option
def report(job_id: str, target: str, table: str | None, out: Path | None, as_json: bool) -> None:
    """Write all of a job into one self-contained HTML file, to mail or to archive.

    \b
    Example:
      penstock jobs report job_mbzlks74_rfi5i0 --db reports.db --out report.html
    """
    from penstock.jobs.html_report import html
    from penstock.tables.formats.export import write_whole

    with open_jobs(target, table, [job_id]) as jobs:
        source, history = jobs.history(job_id)
        job = history.job
        form = job_form(job, source.store, payloads=True)
        notes = form["unread"]
        page = html(history, form["args"], form["result"], _why(source, job), written_at=time.time(), notes=notes)
    path = out or Path(f"{job.id}.html")
    write_whole(path, page)
    print_result({"id": job.id, "file": str(path)}, str(path), as_json=as_json)


# ── waiting ──────────────────────────────────────────────────────────────────────────────────────


@command.command("wait", short_help="Wait until a job has ended.", exit_codes=_ENDED_BADLY)
@job_argument
@store_options
@_timeout_option
@json_option
def wait(job_id: str, target: str, table: str | None, timeout: float | None, as_json: bool) -> None:
    """Wait until a job has ended, then say how.

    \b
    Examples:
      penstock jobs wait job_mbzlks74_rfi5i0 --db reports.db && echo done
      penstock jobs wait job_mbzlks74_rfi5i0 --db reports.db --timeout 600 --json
    """
    with open_jobs(target, table, [job_id]) as jobs:
        source, _ = jobs.history(job_id)
        try:
            *_, (job, _) = follow(source, job_id, timeout)
        except TimeoutError as error:
            raise CommandFailed(NOT_READY, str(error)) from error
        if as_json:
            print_line(job_form(job, source.store, payloads=True))
        else:
            click.echo(_why(source, job))
        end_with(_exit_code(job))


@command.command("watch", short_help="Follow a job's progress until it has ended.", exit_codes=_ENDED_BADLY)
@job_argument
@store_options
@_timeout_option
@json_option
def watch(job_id: str, target: str, table: str | None, timeout: float | None, as_json: bool) -> None:
    """Follow a job's numbered progress until it has ended. Ctrl-C stops watching, not the job.

    \b
    Examples:
      penstock jobs watch job_mbzlks74_rfi5i0 --db reports.db
      penstock jobs watch job_mbzlks74_rfi5i0 --db app.db --json | jq .progress
    """
    with open_jobs(target, table, [job_id]) as jobs:
        source, _ = jobs.history(job_id)
        state = ""
        try:
            for job, entries in follow(source, job_id, timeout):
                for entry in entries:
                    if as_json:
                        print_line({"job": job_id, **entry_form(entry)})
                    else:
                        click.echo(entry_line(entry))
                if job.state.value != state and not as_json:
                    click.echo(_why(source, job), err=True)
                state = job.state.value
                if not has_reader():
                    raise click.exceptions.Exit(FAILED)
        except TimeoutError as error:
            raise CommandFailed(NOT_READY, str(error)) from error
        if as_json:
            print_line(job_form(job, source.store, payloads=True))
        end_with(_exit_code(job))


def follow(source: JobSource, job_id: str, timeout_seconds: float | None) -> Iterator[tuple[Job, Sequence[Entry]]]:
    """The job whenever it has changed, with the entries that are new since; the last one is as it ended.

    No entry is left out or given twice: they are numbered. Raises TimeoutError, JobNotFound; waits for the database.
    """
    end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    seen, before, pause = 0, None, _FIRST_PAUSE_SECONDS
    while True:
        job, entries = ask_until(end, partial(source.read, job_id, seen))
        if job != before:
            before, seen = job, max([seen, *(entry.number for entry in entries)])
            yield job, entries
            pause = _FIRST_PAUSE_SECONDS
        if job.is_terminal and (source.store is None or ask_until(end, partial(source.store.has_ended, job))):
            return
        if end is not None and time.monotonic() + pause > end:
            raise TimeoutError(f"{job_id} is still {job.state} after {timeout_seconds:g} s.")
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)


def _exit_code(job: Job) -> int:
    """0 for a job that has completed, is running or waits; 3 for one that has failed or was cancelled."""
    return WORK_FAILED if job.state.value in ("failed", "cancelled") else 0


# ── changing ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs a command is for, where they are, and how it is to be done."""

    job_ids: tuple[str, ...]
    state: str | None
    task: str | None
    tenant: str | None
    tag: str | None
    target: str
    table: str | None
    dry_run: bool
    yes: bool
    as_json: bool


def selection_options(function: Callable[..., None]) -> Callable[..., None]:
    """JOB…, or --state, --task, --tenant and --tag; --db, --table, --dry-run, --yes, --json: given as `selection`."""

    @wraps(function)
    def with_selection(**given: Any) -> None:
        mine = {name: given.pop(name) for name in Selection.__dataclass_fields__}
        function(selection=Selection(**mine), **given)

    decorators: tuple[Callable[[Any], Any], ...] = (
        click.argument("job_ids", metavar="[JOB]...", nargs=-1, shell_complete=complete_jobs),
        store_options,
        click.option("--state", type=_state_type, metavar="STATE", help=f"All that are {', '.join(_STATES)}."),
        click.option("--task", metavar="NAME", help="All of this task."),
        click.option("--tenant", metavar="NAME", help="All of this tenant."),
        click.option("--tag", metavar="NAME", help="All that have this tag."),
        dry_run_option,
        yes_option,
        json_option,
    )
    for decorator in reversed(decorators):
        with_selection = decorator(with_selection)
    return with_selection


@command.command("cancel", short_help="Cancel jobs.", exit_codes=_ONE_REFUSED)
@selection_options
@click.option("--reason", default="", metavar="TEXT", help="Kept with the job.")
@click.option("--children", is_flag=True, help="Cancel also the jobs that their tasks have made, and theirs.")
def cancel(selection: Selection, reason: str, children: bool) -> None:
    """Cancel jobs: queued ones at once, running ones at their next report, async tasks at their await.

    With --children, workers cancel the children when the job itself has ended.

    \b
    Examples:
      penstock jobs cancel job_mbzlks74_rfi5i0 --db reports.db --reason "twice"
      penstock jobs cancel --state queued --task report --db reports.db --dry-run
    """
    states = (State.QUEUED, State.PROCESSING)
    cancel_one = partial(JobStore.cancel, reason=reason, cancel_children=children)
    _change_jobs("cancel", cancel_one, states, selection)


@command.command("send", short_help="Send an event to a job.", exit_codes=_ONE_REFUSED)
@job_argument
@click.argument("event")
@click.argument("data", metavar="[JSON]", default="null")
@click.option("--event-id", metavar="TEXT", help="Events with the same id are one event: it can be sent again safely.")
@store_options
@json_option
def send(
    job_id: str, event: str, data: str, event_id: str | None, target: str, table: str | None, as_json: bool
) -> None:
    """Send an event to a job: its task takes it with ctx.wait_for, now or when it comes there.

    \b
    Examples:
      penstock jobs send job_mbzlks74_rfi5i0 approval '{"by": "ada"}'
      penstock jobs send job_mbzlks74_rfi5i0 paid --event-id i17 --db shop.db
    """
    try:
        value = from_json(data)
    except ValueError as error:
        hint = 'Write \'{"by": "ada"}\', and text in quotes: \'"ada"\'.'
        raise click.UsageError(f"{data[:100]!r} is no JSON: {error}. {hint}") from None
    with open_jobs(target, table, [job_id]) as jobs:
        send_to = lambda store, job_id: store.workflows.send(job_id, event, value, event_id=event_id)  # noqa: E731
        end_with(change_each(jobs.changeable, send_to, [job_id], as_json))


@command.command("retry", short_help="Give failed jobs another attempt.", exit_codes=_ONE_REFUSED)
@selection_options
def retry(selection: Selection) -> None:
    """Give failed jobs another attempt: they continue at their last checkpoint.

    \b
    Examples:
      penstock jobs retry job_mbzlks74_rfi5i0 --db reports.db
      penstock jobs retry --state failed --task report --db reports.db --yes
    """
    _change_jobs("retry", lambda store, job_id: store.retry(job_id), (State.FAILED,), selection)


def _change_jobs(
    verb: str, change: Callable[[JobStore, str], Job], states: tuple[State, ...], selection: Selection
) -> None:
    is_chosen = any(one is not None for one in (selection.state, selection.task, selection.tenant, selection.tag))
    if bool(selection.job_ids) == is_chosen:
        both = " Not both." if is_chosen else ""
        raise click.UsageError(f"Name the jobs to {verb}, or choose them by --state, --task, --tenant and --tag.{both}")
    if selection.state is not None and parse_state(selection.state)[0] not in states:
        possible = " and ".join(state.value for state in states)
        raise click.UsageError(f"A {selection.state} job cannot be changed by {verb}: only {possible} jobs can.")
    table = selection.table if selection.job_ids else selection.table or DEFAULT_TABLE
    with open_jobs(selection.target, table, selection.job_ids) as jobs:
        job_ids = list(selection.job_ids) or [job.id for job in _select_jobs(jobs, selection, states)]
        if not selection.job_ids and not selection.as_json:
            click.echo(f"{len(job_ids):,} {'job' if len(job_ids) == 1 else 'jobs'} to {verb}.", err=True)
        if selection.dry_run:
            _print_results([{"id": one, "would": verb} for one in job_ids], selection.as_json)
            return
        if job_ids and not selection.job_ids:
            confirm(f"{verb.capitalize()} them?", yes=selection.yes)
        end_with(change_each(jobs.changeable, change, job_ids, selection.as_json))


def _select_jobs(jobs: AllJobs, selection: Selection, states: tuple[State, ...]) -> Iterator[Job]:
    wanted = [(one, None) for one in states] if selection.state is None else [parse_state(selection.state)]
    for state, derived in wanted:
        query = JobQuery(state, selection.task, selection.tenant, limit=_PAGE, tag=selection.tag, derived=derived)
        while True:
            page = jobs.find(query)
            yield from page.jobs
            if page.token is None:
                break
            query = replace(query, before=page.token)


def change_each(
    store_of: Callable[[str], JobStore],
    change: Callable[[JobStore, str], Job],
    job_ids: Iterable[str],
    as_json: bool,
) -> int:
    """Changes each and prints the results; one that cannot be changed stops no other. The exit code: 3 if one could
    not be changed, 4 if one was not found.
    """
    code = 0
    results: list[dict[str, str]] = []
    for job_id in job_ids:
        try:
            results.append({"id": job_id, "state": change(store_of(job_id), job_id).state.value})
        except PenstockError as error:
            code = NOT_FOUND if isinstance(error, JobNotFound) else code or WORK_FAILED
            results.append({"id": job_id, "error": str(error)})
    _print_results(results, as_json)
    return code


def _print_results(results: list[dict[str, str]], as_json: bool) -> None:
    if as_json:
        print_line(results)
        return
    for one in results:
        if "error" in one:
            click.echo(f"Error: {one['error']}", err=True)
        else:
            later = ": it stops at its next report" if one.get("state") == State.PROCESSING else ""
            click.echo(f"{one['id']} {one.get('state', '')}{later}".rstrip())


@command.command("pause", short_help="Pause a queue: workers take no more jobs from it.")
@click.argument("queue", default="default")
@store_options
@click.option("--reason", default="", metavar="TEXT", help="Shown by `penstock jobs why`.")
@json_option
def pause(queue: str, target: str, table: str | None, reason: str, as_json: bool) -> None:
    """Pause a queue: workers take no more jobs from it. Running jobs continue.

    \b
    Example:
      penstock jobs pause default --db reports.db --reason "the bank is closed"
    """
    with open_store(target, table) as store:
        store.pause(queue, reason)
    text = f"{queue} is paused. `penstock jobs resume {queue}` continues it."
    print_result({"queue": queue, "paused": True, "reason": reason}, text, as_json=as_json)


@command.command("resume", short_help="Resume a paused queue.")
@click.argument("queue", default="default")
@store_options
@json_option
def resume(queue: str, target: str, table: str | None, as_json: bool) -> None:
    """Resume a paused queue: workers take its jobs again.

    \b
    Example:
      penstock jobs resume default --db reports.db
    """
    with open_store(target, table) as store:
        store.resume(queue)
    print_result({"queue": queue, "paused": False}, f"{queue} is no longer paused.", as_json=as_json)


@command.command("policy", short_help="Write the least IAM policy for programs that use jobs.")
@click.option(
    "--for", "roles", multiple=True, type=click.Choice(iam_policy.ROLES), default=("enqueue", "work"),
    show_default=True, help="What the program does; repeatable.",
)  # fmt: skip
@click.option(
    "--table", default=DEFAULT_TABLE, show_default=True, envvar="PENSTOCK_JOBS_TABLE", metavar="NAME",
    help="The table of the jobs.",
)  # fmt: skip
@click.option("--files", envvar=FILES_VARIABLE, metavar="URL", help="Where its files are: s3://bucket/prefix.")
@click.option("--region", default="*", show_default=True, metavar="NAME", help="The table's region.")
@click.option("--account", default="*", show_default=True, metavar="ID", help="The table's AWS account.")
@click.option("--partition", default="aws", show_default=True, metavar="NAME", help="aws, aws-cn, aws-us-gov.")
@out_file_option
@json_option
def policy(out: Path | None, as_json: bool, **options: Any) -> None:
    """Write the least IAM policy for programs that enqueue jobs, run them, look at them or manage them.

    \b
    Examples:
      penstock jobs policy --files s3://bucket/jobs --account 123456789012
      penstock jobs policy --for enqueue --out enqueue.json
      penstock jobs policy --for look --for manage

    Creating the table needs another policy: `penstock tables policy jobs --for apply`.
    """
    from penstock.tables.iam_policy import policy_text

    write_text(policy_text(iam_policy.policy(options.pop("roles"), **options)), out, as_json=as_json)


# ── jobs as text and JSON ────────────────────────────────────────────────────────────────────────


def print_line(value: object) -> None:
    """JSON on one line: commands that follow a job print one after the other."""
    click.echo(to_json(value, "what is shown").lstrip())


def print_result(form: object, text: str, *, as_json: bool) -> None:
    if as_json:
        print_line(form)
    else:
        click.echo(text)


def entry_line(entry: Entry) -> str:
    percent = "    " if entry.progress is None else f"{entry.progress:3.0f}%"
    data = "" if entry.data is None else f"  {entry.data}"
    text = "  ".join(part for part in (entry.step, entry.message) if part)
    return one_line(f"{entry.number:>5}  {utc_text(entry.at)}  {percent}  {text}{data}".rstrip())


def names_text(names: Collection[str]) -> str:
    """The first of them, as many as go on a line, and how many more there are."""
    kept = sorted(names)
    while len(text := ", ".join(kept)) > _NAMES_CHARACTERS and len(kept) > 1:
        kept.pop()
    rest = len(names) - len(kept)
    return f"{text} and {rest} more" if rest else text
