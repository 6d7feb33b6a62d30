"""How the commands that change tables go on once it is known what to do."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import Any

import click

from penstock.cli.kit.options import confirm
from penstock.cli.kit.output import print_json
from penstock.cli.tables import screen
from penstock.cli.tables.options import INTERRUPTED, Manner
from penstock.client.database import Database
from penstock.tables.apply.apply import ApplyReport, Interrupted, apply
from penstock.tables.apply.side_by_side import Pace
from penstock.tables.plan.survey import Survey


def propose(
    db: Database,
    survey: Survey,
    manner: Manner,
    policy: str,
    question: str,
    *,
    show: Callable[[], object],
    more: dict[str, Any] | None = None,
) -> None:
    """Shows what would be done, asks if it is to be done, and does it.

    `policy` is the command that writes the IAM policy for it, `more` is shown with the JSON.
    """
    if agreed(survey, manner, question, show=show, more=more):
        carry_out(db, survey, manner, policy, more=more)


def agreed(
    survey: Survey, manner: Manner, question: str, *, show: Callable[[], object], more: dict[str, Any] | None = None
) -> bool:
    """Shows what would be done, and asks; whether there is something to carry out. Mere waiting needs no asking."""
    if not manner.as_json:
        show()
    if manner.dry_run:
        if manner.as_json:
            print_json(screen.survey_json(survey) | (more or {}) | {"dry_run": True})
        return False
    if not survey.plan.is_empty:
        confirm(question, yes=manner.yes)
    return manner.as_json or any(one.has_work for one in survey.tables)


def carry_out(
    db: Database,
    survey: Survey,
    manner: Manner,
    policy: str,
    *,
    more: dict[str, Any] | None = None,
    last: bool = True,
) -> ApplyReport:
    """Applies a survey, and shows what became of it. Exits with 1 after failures, with 130 after Ctrl-C.

    One that is not the `last` of its command shows JSON only where it ends the command.
    """
    shown = screen.Screen(quiet=manner.as_json)
    try:
        report = apply(db, survey, pace=Pace(max_wait_seconds=manner.max_wait), report=shown.report, policy=policy)
    except Interrupted as error:
        shown.clear()
        _show(error.report, manner.as_json, {**(more or {}), "interrupted": True})
        again = shlex.join(["penstock", *sys.argv[1:]])
        click.echo(
            f"Interrupted. What was begun goes on in the database; to finish, run it again:\n  {again}", err=True
        )
        raise click.exceptions.Exit(INTERRUPTED) from None
    shown.clear()
    if last or report.failures or not manner.as_json:
        _show(report, manner.as_json, more)
    if report.failures:
        raise click.exceptions.Exit(1)
    return report


def _show(report: ApplyReport, as_json: bool, more: dict[str, Any] | None) -> None:
    if as_json:
        print_json(screen.report_json(report) | (more or {}))
    else:
        screen.show_report(report)
