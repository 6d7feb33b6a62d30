"""`penstock schedules`: tasks that are enqueued by the clock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import click

from penstock.cli.jobs.commands import open_store, print_line, store_options
from penstock.cli.kit.exit_codes import NOT_FOUND, CommandFailed
from penstock.cli.kit.groups import group
from penstock.cli.kit.options import confirm, json_option, token_option, yes_option
from penstock.cli.kit.output import one_line
from penstock.clock import span, utc_text
from penstock.jobs.app import load_app
from penstock.jobs.scheduler.cron import every_text
from penstock.jobs.scheduler.schedules import SavedSchedule, ScheduleNotFound, Schedules
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker.registry import WorkerRegistry

_NO_SUCH_SCHEDULE = {NOT_FOUND: "there is no such schedule"}
_LISTED = 100
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

name_argument = click.argument("name", metavar="NAME")
app_option = click.option(
    "--app", "place", metavar="MODULE:APP", help="The app that has the task: its options and arguments are checked."
)
cron_option = click.option("--cron", metavar="TEXT", help="When: five fields, such as '30 6 * * mon-fri', or @daily.")
every_option = click.option("--every", metavar="SPAN", help="Or how often: 90s, 15m, 6h, 2d.")
timezone_option = click.option("--timezone", metavar="ZONE", help="Whose clock it goes by, such as Europe/Paris. [UTC]")
args_option = click.option("--args", "arguments", metavar="JSON", help="The arguments of its jobs: '{\"project\": 1}'.")


@group("schedules", exit_codes=_NO_SUCH_SCHEDULE)
def command() -> None:
    """List, create, change, pause and delete schedules: tasks that are enqueued by the clock.

    \b
    Examples:
      penstock schedules list --db reports.db
      penstock schedules create nightly report --cron '0 2 * * *' --timezone Europe/Paris --db reports.db
      penstock schedules pause nightly --db reports.db
      penstock schedules run nightly --db reports.db

    Those of the code, @app.task(cron=…), are listed too, and can be paused and run; change and delete them in the code.
    """


@contextmanager
def open_schedules(target: str, table: str | None, place: str | None = None) -> Iterator[tuple[Schedules, JobStore]]:
    """The schedules of a table; with the tasks of an app, if one is named."""
    tasks = {} if place is None else load_app(place).tasks
    with open_store(target, table) as store:
        try:
            yield Schedules(lambda: store, tasks), store
        except ScheduleNotFound as error:
            raise CommandFailed(NOT_FOUND, str(error)) from error


# ── looking ──────────────────────────────────────────────────────────────────────────────────────


@command.command("list", short_help="List schedules by their next time.")
@store_options
@click.option("--limit", type=click.IntRange(1, 1_000), default=_LISTED, show_default=True, help="At most this many.")
@token_option
@json_option
def list_(target: str, table: str | None, limit: int, token: str | None, as_json: bool) -> None:
    """List schedules by their next time, paused ones last.

    \b
    Example:
      penstock schedules list --db reports.db
    """
    with open_schedules(target, table) as (schedules, store):
        page = schedules.list(limit=limit, token=token)
        known, now = live_tasks(store), store.clock.now()
    if as_json:
        forms = [schedule_form(saved, known) for saved in page.schedules]
        print_line({"schedules": forms, "token": page.token})
        return
    if not page.schedules:
        click.echo("No schedules.")
    rows = [
        (saved.name, saved.task, f"{saved.cron} {saved.timezone}", _next_text(saved, now), saved.last_job or "-")
        for saved in page.schedules
    ]
    widths = [max(map(len, texts)) for texts in zip(*rows, strict=True)]
    for saved, row in zip(page.schedules, rows, strict=True):
        notes = ", ".join(_notes(saved, known))
        line = "  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True))
        click.echo(one_line(f"{line}  {notes}".rstrip()))
    if page.token is not None:
        click.echo(f"More: --token '{page.token}'", err=True)


@command.command("show", short_help="Show a schedule.", exit_codes=_NO_SUCH_SCHEDULE)
@name_argument
@store_options
@json_option
def show(name: str, target: str, table: str | None, as_json: bool) -> None:
    """Show a schedule: when it is due, with what, and its last job.

    \b
    Example:
      penstock schedules show nightly --db reports.db
    """
    with open_schedules(target, table) as (schedules, store):
        saved, known, now = schedules.get(name), live_tasks(store), store.clock.now()
    if as_json:
        print_line(schedule_form(saved, known))
        return
    click.echo(one_line(f"{saved.name}  {saved.task}  {', '.join(_notes(saved, known))}".rstrip()))
    click.echo(one_line(f"when         {saved.cron} ({saved.timezone})"))
    click.echo(f"next         {_next_text(saved, now)}")
    click.echo(f"arguments    {json.dumps(saved.shown_args)}")
    click.echo(f"last         {'-' if saved.last_at is None else utc_text(saved.last_at)}  {saved.last_job}".rstrip())


def live_tasks(store: JobStore) -> frozenset[str]:
    """The tasks that a live worker has."""
    return WorkerRegistry(store.db, store.layout).live_tasks(store.clock.now())


def _notes(saved: SavedSchedule, known: frozenset[str]) -> Iterator[str]:
    if saved.declared:
        yield "in code"
    if saved.paused:
        yield "paused"
    if saved.overlap:
        yield "may overlap"
    if saved.task not in known:
        yield "no worker has its task"


def _next_text(saved: SavedSchedule, now: float) -> str:
    if saved.next_at is None:
        return "-"
    left = saved.next_at - now
    return f"{utc_text(saved.next_at)} ({f'in {span(left)}' if left > 0 else f'due for {span(-left)}'})"


def schedule_form(saved: SavedSchedule, known: frozenset[str]) -> dict[str, Any]:
    """A schedule as JSON."""
    return {
        "name": saved.name,
        "task": saved.task,
        "cron": saved.cron,
        "timezone": saved.timezone,
        "args": saved.shown_args,
        "overlap": saved.overlap,
        "declared": saved.declared,
        "paused": saved.paused,
        "next_at": None if saved.next_at is None else utc_text(saved.next_at),
        "last_at": None if saved.last_at is None else utc_text(saved.last_at),
        "last_job": saved.last_job or None,
        "created_at": utc_text(saved.created_at),
        "has_worker": saved.task in known,
    }


# ── changing ─────────────────────────────────────────────────────────────────────────────────────


@command.command("create", short_help="Create a schedule.")
@name_argument
@click.argument("task", metavar="TASK")
@store_options
@cron_option
@every_option
@timezone_option
@args_option
@click.option("--overlap", is_flag=True, help="Enqueue also while the job before has not ended.")
@click.option("--paused", is_flag=True, help="Wait until it is resumed.")
@app_option
@json_option
def create(
    name: str,
    task: str,
    target: str,
    table: str | None,
    cron: str | None,
    every: str | None,
    timezone: str | None,
    arguments: str | None,
    overlap: bool,
    paused: bool,
    place: str | None,
    as_json: bool,
) -> None:
    """Create a schedule, which enqueues a task by the clock.

    \b
    Examples:
      penstock schedules create nightly report --cron '0 2 * * *' --timezone Europe/Paris --db reports.db
      penstock schedules create acme report --every 15m --args '{"project": "acme"}' --app reports:app --db reports.db
    """
    with open_schedules(target, table, place) as (schedules, store):
        saved = schedules.create(
            name,
            _known_task(schedules, task, place),
            _cron_text(cron, every),
            args=_arguments(arguments),
            timezone=timezone or "UTC",
            overlap=overlap,
            paused=paused,
        )
        _print_schedule(saved, store, "created", as_json)


@command.command("change", short_help="Change a schedule.", exit_codes=_NO_SUCH_SCHEDULE)
@name_argument
@store_options
@click.option("--task", metavar="TASK", help="Enqueue another task.")
@cron_option
@every_option
@timezone_option
@args_option
@click.option("--overlap/--no-overlap", default=None, help="Whether to enqueue while the job before has not ended.")
@app_option
@json_option
def change(
    name: str,
    target: str,
    table: str | None,
    task: str | None,
    cron: str | None,
    every: str | None,
    timezone: str | None,
    arguments: str | None,
    overlap: bool | None,
    place: str | None,
    as_json: bool,
) -> None:
    """Change what is given of a schedule, and leave the rest as it is.

    \b
    Example:
      penstock schedules change nightly --cron '0 3 * * *' --db reports.db
    """
    with open_schedules(target, table, place) as (schedules, store):
        saved = schedules.change(
            name,
            task=None if task is None else _known_task(schedules, task, place),
            cron=_cron_text(cron, every),
            args=_arguments(arguments),
            timezone=timezone,
            overlap=overlap,
        )
        _print_schedule(saved, store, "changed", as_json)


@command.command("pause", short_help="Pause a schedule.", exit_codes=_NO_SUCH_SCHEDULE)
@name_argument
@store_options
@json_option
def pause(name: str, target: str, table: str | None, as_json: bool) -> None:
    """Pause a schedule: it enqueues nothing until it is resumed. Also one that is declared in the code.

    \b
    Example:
      penstock schedules pause nightly --db reports.db
    """
    with open_schedules(target, table) as (schedules, store):
        _print_schedule(schedules.pause(name), store, "paused", as_json)


@command.command("resume", short_help="Resume a paused schedule.", exit_codes=_NO_SUCH_SCHEDULE)
@name_argument
@store_options
@json_option
def resume(name: str, target: str, table: str | None, as_json: bool) -> None:
    """Resume a paused schedule from its next time on.

    \b
    Example:
      penstock schedules resume nightly --db reports.db
    """
    with open_schedules(target, table) as (schedules, store):
        _print_schedule(schedules.resume(name), store, "resumed", as_json)


@command.command("run", short_help="Enqueue a job of a schedule now.", exit_codes=_NO_SUCH_SCHEDULE)
@name_argument
@store_options
@app_option
@json_option
def run(name: str, target: str, table: str | None, place: str | None, as_json: bool) -> None:
    """Enqueue a job of a schedule now, whatever the time. Its times stay as they are.

    \b
    Example:
      penstock schedules run nightly --db reports.db
    """
    with open_schedules(target, table, place) as (schedules, _):
        job = schedules.run(name)
    text = job.id if job.is_new else f"{job.id} has not ended: its jobs do not overlap, and no other was enqueued."
    _print({"schedule": name, "job": job.id, "is_new": job.is_new}, text, as_json)


@command.command("delete", short_help="Delete a schedule.", exit_codes=_NO_SUCH_SCHEDULE)
@name_argument
@store_options
@yes_option
@json_option
def delete(name: str, target: str, table: str | None, yes: bool, as_json: bool) -> None:
    """Delete a schedule. Its jobs stay.

    \b
    Example:
      penstock schedules delete nightly --db reports.db --yes
    """
    with open_schedules(target, table) as (schedules, _):
        schedules.get(name)
        confirm(f"Delete the schedule {name}?", yes=yes)
        schedules.delete(name)
    _print({"schedule": name, "deleted": True}, f"{name} is deleted.", as_json)


def _known_task(schedules: Schedules, task: str, place: str | None) -> Any:
    """The app's task where an app was named, else its name."""
    if place is None:
        return task
    tasks = load_app(place).tasks
    if task not in tasks:
        raise click.BadParameter(f"{place} has no task {task}; it has {', '.join(sorted(tasks))}.")
    return tasks[task]


def _cron_text(cron: str | None, every: str | None) -> str | None:
    if every is None:
        return cron
    if cron is not None:
        raise click.UsageError("Give --cron or --every, not both.")
    number, unit = every[:-1], every[-1:]
    if unit not in _UNITS or not (number.isascii() and number.isdigit()) or len(number) > 9:
        raise click.BadParameter(f"--every is 90s, 15m, 6h or 2d, not {every!r}.")
    return every_text(timedelta(seconds=int(number) * _UNITS[unit]))


def _arguments(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f'--args is no JSON ({error}): \'{{"project": "acme"}}\'.') from None
    if not isinstance(value, dict):
        raise click.BadParameter('--args is a JSON object of arguments by name: \'{"project": "acme"}\'.')
    return value


def _print_schedule(saved: SavedSchedule, store: JobStore, what: str, as_json: bool) -> None:
    known = live_tasks(store)
    then = "" if saved.next_at is None else f" Next: {_next_text(saved, store.clock.now())}."
    unknown = "" if saved.task in known else f" No live worker has the task {saved.task} now."
    _print(schedule_form(saved, known), f"{saved.name} is {what}.{then}{unknown}", as_json)


def _print(form: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        print_line(form)
    else:
        click.echo(one_line(text))
