"""`penstock jobs list`."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import click

from penstock.cli.jobs.options import job_form, opened, place_options, print_json
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import one_line
from penstock.jobs.explain import span
from penstock.jobs.model.job import Job
from penstock.jobs.model.state import State

_STEP = 24


@click.command("list")
@place_options
@click.option("--state", type=click.Choice([state.value for state in State]), help="Only those in this state.")
@click.option("--task", metavar="NAME", help="Only those of this task.")
@click.option("--tenant", metavar="NAME", help="Only those of this tenant; '' for those of none.")
@click.option("--since", metavar="TIME", help="Only those made since: 2026-11-15, 2026-11-15T10:00Z, or 3h, 2d ago.")
@click.option("--until", metavar="TIME", help="Only those made until then.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="At most so many.")
@click.option("--token", metavar="TOKEN", help="Where the page before ended.")
@json_option
def command(
    url: str | None,
    table: str,
    state: str | None,
    task: str | None,
    tenant: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    token: str | None,
    as_json: bool,
) -> None:
    """List jobs, newest first.

    \b
    Examples:
      penstock jobs list --db reports.db
      penstock jobs list --db reports.db --state failed --task report --since 1d
      penstock jobs list --url aws://eu-west-2 --json --limit 1000
    """
    with opened(url, table) as store:
        page = store.find(
            state=None if state is None else State(state),
            task=task,
            tenant=tenant,
            since=None if since is None else moment(since),
            until=None if until is None else moment(until),
            limit=limit,
            token=token,
        )
        if as_json:
            print_json({"jobs": [job_form(job, store) for job in page.jobs], "token": page.token})
            return
        if not page.jobs:
            click.echo("No jobs." if token is None else "No more jobs.")
        widths = [max((len(text) for text in texts), default=0) for texts in zip(*map(_names, page.jobs), strict=True)]
        for job in page.jobs:
            click.echo(_line(job, widths, store.clock.now()))
        if page.token is not None:
            click.echo(f"More: --token '{page.token}'", err=True)


def _names(job: Job) -> tuple[str, str, str]:
    return one_line(job.id), job.state.value, one_line(job.task)


def _line(job: Job, widths: list[int], now: float) -> str:
    step = job.step if len(job.step) <= _STEP else job.step[: _STEP - 1] + "…"
    shown = f"{job.progress:3.0f}% {step}" if job.entries or job.is_terminal else ""
    tenant = f"  {job.tenant}" if job.tenant else ""
    age = span(now - job.created_at)
    names = "  ".join(f"{name:{width}}" for name, width in zip(_names(job), widths, strict=True))
    return one_line(f"{names}  {age:>8} old  {shown}{tenant}".rstrip())


def moment(text: str) -> float:
    """A time, or a span of time before now: `3h`, `2d`, `90m`, `30s`."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    if text[-1:] in units and text[:-1].isascii() and text[:-1].isdigit():
        return time.time() - int(text[:-1]) * units[text[-1]]
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no time; 2026-11-15, 2026-11-15T10:00Z and 3h are.") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
