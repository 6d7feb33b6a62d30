"""Commands that change jobs: named one by one, or chosen by state, task and tenant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from penstock.cli.jobs.options import opened, place_options, print_json
from penstock.cli.kit.exit_codes import NOT_FOUND, WORK_FAILED
from penstock.cli.kit.options import confirm, dry_run_option, json_option, yes_option
from penstock.errors import PenstockError
from penstock.jobs.model.job import Job, JobNotFound
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore

_PAGE = 500


@dataclass(frozen=True, slots=True)
class Choice:
    """Which jobs a command is for, where they are, and how it is to be done."""

    job_ids: tuple[str, ...]
    state: str | None
    task: str | None
    tenant: str | None
    url: str | None
    table: str
    dry_run: bool
    yes: bool
    as_json: bool


def choice_options(function: Callable[..., None]) -> Callable[..., None]:
    """JOB…, or --state, --task and --tenant; --url, --table, --dry-run, --yes, --json: given as `choice`."""

    @wraps(function)
    def command(**given: Any) -> None:
        mine = {name: given.pop(name) for name in Choice.__dataclass_fields__}
        function(choice=Choice(**mine), **given)

    decorators: tuple[Callable[[Any], Any], ...] = (
        click.argument("job_ids", metavar="[JOB]...", nargs=-1),
        place_options,
        click.option("--state", type=click.Choice([state.value for state in State]), help="All in this state."),
        click.option("--task", metavar="NAME", help="All of this task."),
        click.option("--tenant", metavar="NAME", help="All of this tenant."),
        dry_run_option,
        yes_option,
        json_option,
    )
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def run_on_jobs(verb: str, act: Callable[[JobStore, str], Job], states: tuple[State, ...], choice: Choice) -> None:
    """Does it to each; one that cannot be stops no other. Exit 3 if one could not, 4 if one was not found."""
    if bool(choice.job_ids) == any(one is not None for one in (choice.state, choice.task, choice.tenant)):
        raise click.UsageError(f"Name the jobs to {verb}, or choose them by --state, --task and --tenant.")
    with opened(choice.url, choice.table) as store:
        chosen = list(choice.job_ids) or [job.id for job in _chosen(store, choice, states)]
        if not choice.job_ids:
            click.echo(f"{len(chosen):,} {'job' if len(chosen) == 1 else 'jobs'} to {verb}.", err=True)
        if choice.dry_run:
            _tell([{"id": one, "would": verb} for one in chosen], choice.as_json)
            return
        if chosen and not choice.job_ids:
            confirm(f"{verb.capitalize()} them?", yes=choice.yes)
        raise SystemExit(do_to_each(store, act, chosen, choice.as_json))


def _chosen(store: JobStore, choice: Choice, states: tuple[State, ...]) -> Iterator[Job]:
    for one in states if choice.state is None else (State(choice.state),):
        token: str | None = None
        while True:
            page = store.find(state=one, task=choice.task, tenant=choice.tenant, limit=_PAGE, token=token)
            yield from page.jobs
            token = page.token
            if token is None:
                break


def do_to_each(store: JobStore, act: Callable[[JobStore, str], Job], chosen: Iterable[str], as_json: bool) -> int:
    """Does it to each, and tells what became of it; one that cannot be stops no other. The exit code."""
    code = 0
    told: list[dict[str, str]] = []
    for job_id in chosen:
        try:
            told.append({"id": job_id, "state": act(store, job_id).state.value})
        except PenstockError as error:
            code = NOT_FOUND if isinstance(error, JobNotFound) else code or WORK_FAILED
            told.append({"id": job_id, "error": str(error)})
    _tell(told, as_json)
    return code


def _tell(told: list[dict[str, str]], as_json: bool) -> None:
    if as_json:
        print_json(told)
        return
    for one in told:
        if "error" in one:
            click.echo(f"Error: {one['error']}", err=True)
        else:
            later = ": it is told at its next report" if one.get("state") == State.PROCESSING else ""
            click.echo(f"{one['id']} {one.get('state', '')}{later}".rstrip())
