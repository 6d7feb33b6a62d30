"""Commands that change jobs: named one by one, or chosen by state, task and tenant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from penstock.cli.jobs.options import FAILED, NOT_FOUND, opened, print_json
from penstock.errors import PenstockError
from penstock.jobs.job import Job, JobNotFound
from penstock.jobs.state import State
from penstock.jobs.store import JobStore

F = TypeVar("F", bound=Callable[..., Any])
_PAGE = 500


def choice_options(command: F) -> F:
    """JOB…, or --state, --task and --tenant; --dry-run and --yes."""
    decorators = (
        click.argument("job_ids", metavar="[JOB]...", nargs=-1),
        click.option("--state", type=click.Choice([state.value for state in State]), help="All in this state."),
        click.option("--task", metavar="NAME", help="All of this task."),
        click.option("--tenant", metavar="NAME", help="All of this tenant."),
        click.option("--dry-run", is_flag=True, help="Say which they are, and do nothing."),
        click.option("--yes", is_flag=True, help="Do it to many without asking."),
    )
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def run_on_jobs(
    verb: str,
    act: Callable[[JobStore, str], Job],
    states: tuple[State, ...],
    *,
    job_ids: tuple[str, ...],
    state: str | None,
    task: str | None,
    tenant: str | None,
    dry_run: bool,
    yes: bool,
    url: str | None,
    table: str,
    as_json: bool,
) -> None:
    """Does it to each; one that cannot be stops no other. Exit 3 if one could not, 4 if one was not found."""
    if bool(job_ids) == any(choice is not None for choice in (state, task, tenant)):
        raise click.UsageError(f"Name the jobs to {verb}, or choose them by --state, --task and --tenant.")
    with opened(url, table) as store:
        chosen = list(job_ids) or [job.id for job in _chosen(store, state, task, tenant, states)]
        if not job_ids:
            click.echo(f"{len(chosen):,} jobs to {verb}.", err=True)
        if dry_run or (
            not job_ids and chosen and not yes and not click.confirm(f"{verb.capitalize()} them?", err=True)
        ):
            _tell([{"id": one, "would": verb} for one in chosen], as_json)
            return
        raise SystemExit(_run(store, verb, act, chosen, as_json))


def _chosen(
    store: JobStore, state: str | None, task: str | None, tenant: str | None, states: tuple[State, ...]
) -> Iterator[Job]:
    for one in states if state is None else (State(state),):
        token: str | None = None
        while True:
            page = store.find(state=one, task=task, tenant=tenant, limit=_PAGE, token=token)
            yield from page.jobs
            token = page.token
            if token is None:
                break


def _run(store: JobStore, verb: str, act: Callable[[JobStore, str], Job], chosen: list[str], as_json: bool) -> int:
    code = 0
    told: list[dict[str, str]] = []
    for job_id in chosen:
        try:
            told.append({"id": job_id, "state": act(store, job_id).state.value})
        except PenstockError as error:
            code = NOT_FOUND if isinstance(error, JobNotFound) else code or FAILED
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
            click.echo(f"{one['id']} {one.get('state', '')}".rstrip())
