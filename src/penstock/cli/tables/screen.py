"""What is shown: plans in colour, progress on a terminal only, reports and failures."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable
from typing import Any

import click

from penstock.tables.apply.apply import ApplyReport, Outcome
from penstock.tables.apply.table_changer import Finished, Progress
from penstock.tables.plan.failures import Failure
from penstock.tables.plan.plan import Plan
from penstock.tables.plan.render import Style, as_json, describe_whole, lines
from penstock.tables.plan.survey import Survey

_COLOURS: dict[Style, dict[str, Any]] = {
    "plain": {},
    "create": {"fg": "green"},
    "change": {"fg": "yellow"},
    "delete": {"fg": "red"},
    "replace": {"fg": "magenta"},
    "cost": {"dim": True},
    "danger": {"fg": "red"},
}


def show_plan(plan: Plan) -> None:
    for line in lines(plan):
        click.echo("".join(click.style(piece.text, **_COLOURS[piece.style]) for piece in line))


def show_under_way(survey: Survey) -> None:
    for one in survey.under_way:
        assert one.live is not None
        facts = one.live.facts
        told = [f"the table is {facts.status}"] if facts.status != "ACTIVE" else []
        told += [f"index {name} is being made" for name in facts.filling]
        told += [f"index {name} is being deleted" for name in facts.leaving]
        click.echo(f"    {one.name}   under way: {', '.join(told)}")


def show_not_compared(survey: Survey) -> None:
    if survey.not_compared:
        click.echo(f"Not compared, because this endpoint does not tell: {', '.join(survey.not_compared)}.")


def survey_json(survey: Survey) -> dict[str, Any]:
    return as_json(survey.plan) | {
        "under_way": [one.name for one in survey.under_way],
        "not_compared": list(survey.not_compared),
    }


def report_json(report: ApplyReport) -> dict[str, Any]:
    return {"counts": report.counts, "tables": [_outcome_json(one) for one in report.outcomes]}


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    told: dict[str, Any] = {
        "table": outcome.table,
        "fate": outcome.fate,
        "done": [describe_whole(change) for change in outcome.done],
    }
    if outcome.doing:
        told["doing"] = outcome.doing
    if outcome.notes:
        told["notes"] = list(outcome.notes)
    if outcome.failure is not None:
        told["failure"] = failure_json(outcome.failure)
    return told


def failure_json(failure: Failure) -> dict[str, Any]:
    members = ("table", "change", "code", "action", "reason", "next_step")
    return {member: getattr(failure, member) for member in members}


def show_report(report: ApplyReport) -> None:
    for outcome in report.outcomes:
        for note in outcome.notes:
            click.echo(f"    {outcome.table}: {note}")
        if outcome.fate == "unfinished":
            done = ", ".join(describe_whole(change) for change in outcome.done) or "nothing"
            click.echo(f"    {outcome.table}: done: {done}; was at: {outcome.doing}", err=True)
    show_failures(report.failures)
    click.echo(report.summary)


def show_failures(failures: Iterable[Failure]) -> None:
    for failure in failures:
        click.echo(click.style("failed ", fg="red") + str(failure), err=True)


_EVERY_SECONDS = 0.2  # on a line of progress


class Line:
    """One line on the terminal that says how far the items are; nothing where there is no terminal."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._shown = sys.stderr.isatty() and not quiet
        self._began_at = time.monotonic()
        self._told_at = 0.0
        self._length = 0

    def items(self, done: int, total: int) -> None:
        """`120,000 of 200,000 items, 31,000 a second`."""
        now = time.monotonic()
        if self._shown and now - self._told_at >= _EVERY_SECONDS:
            self._told_at = now
            rate = done / max(now - self._began_at, 0.001)
            self._write(f"{done:,} of {total:,} items, {rate:,.0f} a second")

    def tell(self, text: str) -> None:
        if self._shown:
            self._write(text)

    def end(self) -> None:
        if self._shown and self._length:
            self._write("")
            click.echo("\r", nl=False, err=True)

    def _write(self, text: str) -> None:
        click.echo("\r" + text.ljust(self._length), nl=False, err=True)
        self._length = len(text)


class Screen:
    """Told of progress: on a terminal one line that is written again and again; each finished change has its own."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty() and not quiet
        self._now: dict[str, str] = {}
        self._length = 0

    def report(self, event: object) -> None:
        match event:
            case Progress():
                self._now[event.table] = progress_text(event)
                self._draw()
            case Finished(table, change):
                self._now.pop(table, None)
                self.clear()
                if not self._quiet:
                    click.echo(f"  done  {table}   {change}")
                self._draw()

    def clear(self) -> None:
        if self._live and self._length:
            click.echo("\r" + " " * self._length + "\r", nl=False, err=True)
            self._length = 0

    def _draw(self) -> None:
        if not self._live or not self._now:
            return
        first, *others = self._now.values()
        # A narrow terminal cuts the end off: how far it is comes first.
        text = (f"{len(others) + 1} tables under way; " if others else "") + first
        text = text[: shutil.get_terminal_size().columns - 1]
        click.echo("\r" + text.ljust(self._length), nl=False, err=True)
        self._length = len(text)


def progress_text(progress: Progress) -> str:
    """`CREATING, filling, about 42 %, 12 s: jobs + index by-due (due)`"""
    told = [progress.status]
    if progress.backfilling:
        told.append("filling")
    if progress.percent is not None:
        told.append(f"about {progress.percent} %")
    told.append(f"{progress.elapsed_seconds:.0f} s")
    return f"{', '.join(told)}: {progress.table} {progress.change}"
