"""`penstock jobs pull`, `debug` and `fork`: bring a job home, find out what is wrong with it, and run it again."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, Final

import click
import orjson

from penstock.cli.jobs.commands import files_of, job_argument, open_jobs, print_line, print_result, store_options
from penstock.cli.kit import databases, groups
from penstock.cli.kit.exit_codes import INTERRUPTED, NOT_FOUND, NOT_READY, WORK_FAILED, CommandFailed, end_with
from penstock.cli.kit.logs import log_warnings
from penstock.cli.kit.options import (
    DB_VARIABLE,
    FILES_VARIABLE,
    db_option,
    dry_run_option,
    files_option,
    json_option,
    parse_pairs,
)
from penstock.cli.kit.output import one_line
from penstock.client.database import Database, connect
from penstock.errors import PenstockError
from penstock.files import open_files
from penstock.jobs.app import load_app
from penstock.jobs.copies.debugger import DebugAttempt, DebugOutcome, print_trace
from penstock.jobs.copies.network_block import NetworkBlock
from penstock.jobs.copies.table_items import ItemKey
from penstock.jobs.copies.transfer import Fork, NothingSecret, Pulled, ReadOnly, masked_text, plan_fork, secret_fields
from penstock.jobs.copies.transfer import fork as fork_job
from penstock.jobs.copies.transfer import pull as pull_job
from penstock.jobs.forms import job_form
from penstock.jobs.model.job import Job, JobNotFound
from penstock.jobs.model.json_text import to_json
from penstock.jobs.sources import AllJobs
from penstock.jobs.store.store import JobStore

_NO_SUCH_JOB = {NOT_FOUND: "there is no such job"}
_DECLARED: Final = "*"
"""--mask without a name."""
_ARG_VARIABLE: Final = "PENSTOCK_ARG_"
_ENDINGS: Final = {
    "failed": WORK_FAILED,
    "retried": WORK_FAILED,
    "cancelled": WORK_FAILED,
    "lost": WORK_FAILED,
    "requeued": NOT_READY,
    "left": INTERRUPTED,
}
_LINE_CHARACTERS: Final = 300


# ── pull ─────────────────────────────────────────────────────────────────────────────────────────


@groups.command("pull", exit_codes=_NO_SUCH_JOB)
@job_argument
@store_options
@click.option("--to", "place", required=True, metavar="FILE", help="The database file to copy it into.")
@click.option(
    "--items", "item_keys", multiple=True, metavar="TABLE:KEY",
    help="Items that it needs: orders:id=o-17; orders:customer=c1 for a whole partition. Repeatable.",
)  # fmt: skip
@click.option(
    "--mask", multiple=True, is_flag=False, flag_value=_DECLARED, metavar="[NAME]",
    help="Leave out this argument (card.number for a field of one), or without a name those declared secret; "
    "secret fields of results are masked with either. Repeatable.",
)  # fmt: skip
@files_option
@click.option("--force", is_flag=True, help="Replace a copy that the file has already.")
@json_option
def pull(
    job_id: str,
    target: str,
    table: str | None,
    place: str,
    item_keys: Sequence[str],
    mask: Sequence[str],
    files: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Copy a job from any database into a local file, to debug it there. The source is only read.

    With its arguments, checkpoints, log, events and files, and the results of the jobs that it depends on. No worker
    starts a copy: `penstock jobs debug` does.

    \b
    Examples:
      penstock jobs pull job_mbzlks74_rfi5i0 --db aws://eu-west-2 --to debug.db
      penstock jobs pull job_mbzlks74_rfi5i0 --to debug.db --items orders:id=o-17
      penstock jobs pull job_mbzlks74_rfi5i0 --to debug.db --mask token --force

    A key of --items is NAME=VALUE, several with commas between them, or JSON: 'orders:{"id": "a,b"}'.
    """
    if not databases.is_file_target(place):
        raise click.UsageError(f"--to is a file on this machine, such as debug.db; not {place}.")
    keys = [ItemKey.parse(text) for text in item_keys]
    with open_jobs(target, table, [job_id], through=lambda db: Database(ReadOnly(db.transport, level="TOTAL"))) as jobs:
        source = _source(jobs, job_id, files)
        names = _masked_names(source, job_id, mask)
        with databases.open_database(place, "made") as db:
            local = JobStore(db, source.layout, files=open_files(f"{place}.files"))
            try:
                pulled = pull_job(source, local, job_id, items=keys, mask=names, force=force)
            except NothingSecret:
                raise click.UsageError(
                    "Nothing of the job is declared secret. For arguments, name them, --mask NAME."
                ) from None
    text = "\n".join(_pulled_lines(pulled, target, place))
    print_result(_pulled_form(pulled, target, place), text, as_json=as_json)


def _source(jobs: AllJobs, job_id: str, files: str | None) -> JobStore:
    stores = [source.store for source in jobs.sources if source.store is not None]
    store = next((one for one in stores if one.get_existing([job_id])), None)
    if store is None:
        found, _ = jobs.history(job_id)
        raise PenstockError(f"{job_id} is a job of {found.system}, which is no job store: only jobs of one are pulled.")
    return JobStore(store.db, store.layout, files=store.files if files is None else open_files(files))


def _masked_names(store: JobStore, job_id: str, mask: Sequence[str]) -> list[str] | None:
    if not mask:
        return None
    names = [name for name in mask if name != _DECLARED]
    if _DECLARED in mask:
        names += secret_fields(store.get(job_id))
    return list(dict.fromkeys(names))


def _pulled_lines(pulled: Pulled, target: str, place: str) -> Iterator[str]:
    job = pulled.job
    again = ", in place of an older copy" if pulled.replaced else ""
    yield one_line(f"{job.id}  {job.task}  {job.state.value}  attempt {job.attempt}  from {target} to {place}{again}")
    parts = [
        _count(pulled.records, "record"),
        _count(len(pulled.parents), "parent"),
        _count(pulled.files, "file") + (f" of {pulled.file_bytes:,} bytes" if pulled.files else ""),
        _count(pulled.items, "item"),
    ]
    yield f"copied       {', '.join(part for part in parts if not part.startswith('0 '))}"
    if job.masked:
        yield f"left out     {', '.join(job.masked)}"
    yield f"read         {pulled.read_units:g} read units in {_count(pulled.calls, 'call')}; nothing was written there"
    for note in pulled.notes:
        yield f"note         {note}"
    yield f"Run it: penstock jobs debug {job.id} --db {place} MODULE:APP"


def _pulled_form(pulled: Pulled, target: str, place: str) -> dict[str, Any]:
    return {
        "id": pulled.job.id,
        "task": pulled.job.task,
        "state": pulled.job.state.value,
        "from": target,
        "to": place,
        "records": pulled.records,
        "parents": list(pulled.parents),
        "files": pulled.files,
        "file_bytes": pulled.file_bytes,
        "items": pulled.items,
        "masked": list(pulled.job.masked),
        "calls": pulled.calls,
        "read_units": pulled.read_units,
        "replaced": pulled.replaced,
        "notes": list(pulled.notes),
    }


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


# ── debug ────────────────────────────────────────────────────────────────────────────────────────


@groups.command(
    "debug",
    exit_codes={
        WORK_FAILED: "the attempt has failed",
        NOT_READY: "it was requeued, and has not ended",
        INTERRUPTED: "somebody has left the debugger, or interrupted it",
        **_NO_SUCH_JOB,
    },
)
@job_argument
@click.argument("place", metavar="MODULE:APP")
@db_option(default=databases.only_database_file, help="The file that it was pulled into")
@click.option("--pdb", "with_pdb", is_flag=True, help="Stop at the task's first line, and where it raises.")
@click.option("--step", metavar="NAME", help="Forget this checkpoint and those kept after it, and run from there.")
@click.option("--network", is_flag=True, help="Allow connections. Without it, all are blocked.")
@click.option(
    "--arg", "args", multiple=True, metavar="NAME=VALUE",
    help=f"An argument for this attempt; one left out by --mask is also read from {_ARG_VARIABLE}NAME, or asked "
    "for. Repeatable.",
)  # fmt: skip
@json_option
def debug(
    job_id: str,
    place: str,
    target: str,
    with_pdb: bool,
    step: str | None,
    network: bool,
    args: Sequence[str],
    as_json: bool,
) -> None:
    """Run the next attempt at a pulled job here, in the foreground: finished steps are reused.

    The app's database and files are replaced by the local ones. Nothing else can be reached, unless --network allows
    it. With --json, what the task prints goes to stderr.

    \b
    Examples:
      penstock jobs debug job_mbzlks74_rfi5i0 orders:app --db debug.db
      penstock jobs debug job_mbzlks74_rfi5i0 orders:app --pdb --step pack
    """
    if not databases.is_file_target(target):
        raise click.UsageError(f"A job is debugged in a file: pull it first, `penstock jobs pull {job_id} --db {target}"
                               " --to debug.db`.")  # fmt: skip
    if with_pdb and as_json:
        raise click.UsageError("--pdb talks to a person, --json to a program: give one of them.")
    given = parse_pairs("--arg", args)
    with _local_app(target, place, job_id, step, network) as (attempt, block):
        given |= _secrets(attempt, given)
        if not as_json:
            for line in _header(attempt, given, block):
                click.echo(line, err=True)
        with ExitStack() as stack:
            if as_json:
                stack.enter_context(redirect_stdout(sys.stderr))
            outcome = attempt.run(given, with_pdb=with_pdb)
        if as_json:
            print_line(_outcome_form(outcome, attempt, block))
        else:
            _print_outcome(outcome, attempt, block, with_pdb=with_pdb)
    end_with(_ENDINGS.get(outcome.ending, 0))


@contextmanager
def _local_app(
    target: str, place: str, job_id: str, step: str | None, network: bool
) -> Iterator[tuple[DebugAttempt, NetworkBlock | None]]:
    """The app, on the file: its module is imported when nothing can be reached any more."""
    path = Path(target).resolve()
    block = None if network else NetworkBlock()
    if databases.missing_file(target) is not None:
        raise PenstockError(f"{target}: there is no such database. `penstock jobs pull {job_id}` makes it.")
    os.environ[DB_VARIABLE], os.environ[FILES_VARIABLE] = str(path), f"{path}.files"
    if block is not None:
        block.begin()
    log_warnings()
    app = load_app(place)
    with connect(path) as db:
        app.replace_database(db, open_files(f"{path}.files"))
        try:
            attempt = DebugAttempt(app, job_id, step=step)
        except JobNotFound as error:
            raise CommandFailed(NOT_FOUND, str(error), f"penstock jobs pull {job_id} --to {target}") from error
        yield attempt, block


def _secrets(attempt: DebugAttempt, given: dict[str, Any]) -> dict[str, str]:
    """The arguments that were left out: from variables, else from the terminal."""
    found: dict[str, str] = {}
    for name in attempt.missing_arguments(given):
        variable = _variable(name)
        if variable in os.environ:
            found[name] = os.environ[variable]
        elif sys.stdin.isatty():
            found[name] = getpass.getpass(f"{name} (left out by --mask; not shown, not stored): ")
    missing = [name for name in attempt.missing_arguments(given) if name not in found]
    if missing:
        variables = ", ".join(map(_variable, missing))
        raise click.UsageError(
            f"The arguments {', '.join(missing)} were left out when the job was pulled, and there is no terminal to "
            f"ask on: give --arg NAME=VALUE, or set {variables}."
        )
    return found


def _variable(name: str) -> str:
    return _ARG_VARIABLE + name.upper().replace(".", "_")


def _header(attempt: DebugAttempt, given: dict[str, Any], block: NetworkBlock | None) -> Iterator[str]:
    job = attempt.job
    yield one_line(f"{job.id}  {job.task}  attempt {job.attempt + 1}  a copy from {job.pulled_from}, {job.state.value}")
    shown = masked_text(attempt.arguments, secret_fields(job), job.masked)
    changed = [name for name in given if name not in job.masked]
    yield "arguments    " + shorten(shown) + (f"  but {', '.join(changed)} as given" if changed else "")
    reused = ", ".join(point.name for point in attempt.before.checkpoints)
    yield f"reused       {reused or 'no checkpoint'}"
    if attempt.forgotten:
        yield f"forgotten    {', '.join(attempt.forgotten)}"
    if block is None:
        yield "network      allowed"
    else:
        where = "also for subprocesses" if block.by_kernel else "in Python"
        yield f"network      blocked, {where}; --network allows it"


def shorten(text: str) -> str:
    return text if len(text) <= _LINE_CHARACTERS else text[: _LINE_CHARACTERS - 1] + f"… ({len(text):,} characters)"


def _print_outcome(outcome: DebugOutcome, attempt: DebugAttempt, block: NetworkBlock | None, *, with_pdb: bool) -> None:
    error = outcome.error
    sys.stdout.flush()
    if outcome.ending in ("failed", "retried") and error is not None and not with_pdb:
        print_trace(error, attempt.task, sys.stderr)
    if block is not None and block.places:
        tried = ", ".join(f"{place} ({times}×)" if times > 1 else place for place, times in block.places.items())
        click.echo(one_line(f"blocked      {tried}; --network allows it"), err=True)
    written = _written(outcome)
    if written:
        click.echo(one_line(f"written      {'; '.join(written)}"), err=True)
    if outcome.ending == "completed":
        click.echo(f"completed    {shorten(_result_text(outcome, attempt))}")
    elif outcome.ending == "left":
        click.echo("left         the copy is queued, with what this attempt has kept")
    else:
        how = "failed" if outcome.ending == "retried" else outcome.ending
        what = "" if outcome.job.error is None else f"{outcome.job.error.kind}: {outcome.job.error.message}"
        click.echo(one_line(f"{how:<12} {what if how == 'failed' else error or ''}".rstrip()))


def _written(outcome: DebugOutcome) -> list[str]:
    written = outcome.written
    parts = [f"checkpoint {name}" for name in written.checkpoints]
    parts += [f"file {name}" for name in written.files]
    parts += [f"job {job.id} ({job.task})" for job in written.jobs]
    return [*parts, _count(written.entries, "log entry").replace("entrys", "entries")] if written.entries else parts


def _result(outcome: DebugOutcome, attempt: DebugAttempt) -> Any:
    """As it is stored, without what its task declares secret."""
    return attempt.store.load_to_show(outcome.job, outcome.job.result)


def _result_text(outcome: DebugOutcome, attempt: DebugAttempt) -> str:
    return to_json(_result(outcome, attempt), "result").lstrip()


def _outcome_form(outcome: DebugOutcome, attempt: DebugAttempt, block: NetworkBlock | None) -> dict[str, Any]:
    job, written = outcome.job, outcome.written
    return {
        "id": job.id,
        "outcome": "failed" if outcome.ending == "retried" else outcome.ending,
        "attempt": job.attempt,
        "result": _result(outcome, attempt) if outcome.ending == "completed" else None,
        "error": _error_form(job),
        "written": {
            "checkpoints": list(written.checkpoints),
            "entries": written.entries,
            "files": list(written.files),
            "jobs": [one.id for one in written.jobs],
        },
        "blocked": {} if block is None else dict(block.places),
    }


def _error_form(job: Job) -> dict[str, str] | None:
    error = job.error
    return None if error is None else {"kind": error.kind, "message": error.message, "trace": error.trace}


# ── fork ─────────────────────────────────────────────────────────────────────────────────────────


@groups.command("fork", exit_codes={WORK_FAILED: "it cannot be forked", **_NO_SUCH_JOB})
@job_argument
@store_options
@click.option("--from", "from_step", metavar="STEP", help="Run from this step on: it and later ones are not copied.")
@click.option("--args", "args", metavar="JSON", help="Arguments to change: '{\"month\": 11}'.")
@files_option
@dry_run_option
@json_option
def fork(
    job_id: str,
    target: str,
    table: str | None,
    from_step: str | None,
    args: str | None,
    files: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Make a new job from the checkpoints of an old one, in the same database, for any worker. The old one stays.

    \b
    Examples:
      penstock jobs fork job_mbzlks74_rfi5i0 --from render --dry-run
      penstock jobs fork job_mbzlks74_rfi5i0 --args '{"paper": "A4"}'
    """
    changed = None if args is None else _arguments(args)
    with open_jobs(target, table, [job_id]) as jobs:
        found = jobs.changeable(job_id)
        place = open_files(files) if files is not None else files_of(target)
        store = JobStore(found.db, found.layout, files=place, keep_seconds=found.keep_seconds)
        planned = plan_fork(store, job_id, from_step)
        done = planned if dry_run else fork_job(store, job_id, from_step=from_step, args=changed)
        print_result(_fork_form(done, from_step), "\n".join(_fork_lines(done)), as_json=as_json)


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise click.UsageError(
            f"--args is a JSON object of arguments by name, such as '{{\"month\": 11}}'; not {text}."
        )
    return value


def _fork_lines(done: Fork) -> Iterator[str]:
    if done.job is None:
        yield f"{done.origin.id} would be forked:"
    else:
        yield f"{done.job.id}  {done.job.task}  {done.job.state.value}  forked from {done.origin.id}"
    yield f"checkpoints  {', '.join(point.name for point in done.checkpoints) or 'none'}"
    if done.left_out:
        yield f"runs again   {', '.join(done.left_out)}"
    if done.files:
        yield f"files        {', '.join(file.name for file in done.files)}"
    if done.missing_parents:
        yield f"parents      {', '.join(done.missing_parents)} are gone: their results are not there"


def _fork_form(done: Fork, from_step: str | None) -> dict[str, Any]:
    return {
        "forked_from": done.origin.id,
        "from": from_step,
        "checkpoints": [point.name for point in done.checkpoints],
        "left_out": list(done.left_out),
        "files": [file.name for file in done.files],
        "missing_parents": list(done.missing_parents),
        "job": None if done.job is None else job_form(done.job),
    }
