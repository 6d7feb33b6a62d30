"""Definitions and live tables: plan, apply, verify, destroy and doctor; and how plans and progress are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from penstock.cli.kit import groups
from penstock.cli.kit.databases import missing_file, note_missing_file, open_database
from penstock.cli.kit.exit_codes import DIFFERENT, FAILED, INTERRUPTED, end_with
from penstock.cli.kit.options import db_option, json_option, no_target, same_command
from penstock.cli.kit.output import ProgressLine, print_json
from penstock.cli.tables.gate import NOT_CONFIRMED, allow_destroy_option, confirm_changes
from penstock.cli.tables.options import ChangeOptions, NamedTables, WaitLines, change_options, tables_options
from penstock.cli.tables.orphans import orphans_of_plan
from penstock.cli.tables.rekey_command import rekey_advice
from penstock.cli.tables.saved_plans import (
    out_option,
    refuse_drop_option,
    save_plan,
    tables_or_plan_options,
    target_of,
)
from penstock.client.database import Database
from penstock.tables.apply.apply import ApplyReport, Interrupted, Outcome
from penstock.tables.apply.table_changer import AlreadyMade, Finished, Progress, Waiting
from penstock.tables.doctor import Finding, examine_definitions, examine_live
from penstock.tables.indexes import IndexCheck, check_new_indexes, fit_warning, refuse_new_misfits
from penstock.tables.plan.changes import count, describe_whole
from penstock.tables.plan.estimate import estimate
from penstock.tables.plan.failures import Failure
from penstock.tables.plan.markdown import plan_markdown
from penstock.tables.plan.plan import Plan
from penstock.tables.plan.render import Style, plan_json, render_lines
from penstock.tables.plan.saved_plan import NEW_PLAN, SavedPlan, SavedPlanRefused
from penstock.tables.plan.survey import Survey, TableSurvey, keep_added_indexes, survey, survey_to_delete
from penstock.tables.plan.unmanaged import unmanaged_of
from penstock.tables.state.locked_apply import apply_locked as apply_survey
from penstock.tables.state.locked_apply import require_unmoved
from penstock.tables.state.second_look import forget_untold

Unmanaged = Mapping[str, tuple[str, ...]]
"""What tables have that no definition says, by table."""

drop_index_option = click.option(
    "--drop-index", "drop", multiple=True, metavar="TABLE.INDEX",
    help="Drop this index, which no definition has; repeatable. Without it, such an index stays.",
)  # fmt: skip


@groups.command("plan", exit_codes={DIFFERENT: "there are changes (with --exit-code)"})
@db_option()
@tables_options
@drop_index_option
@out_option
@click.option("--markdown", is_flag=True, help="Print Markdown, for the comment of a pull request.")
@click.option("--exit-code", is_flag=True, help="Exit with 7 if there are changes.")
@json_option
def plan(
    named: NamedTables,
    target: str,
    drop: tuple[str, ...],
    out: Path | None,
    markdown: bool,
    exit_code: bool,
    as_json: bool,
) -> None:
    """Show what apply would do, and what it costs: what blocks, what fills in the background, what is destroyed.

    \b
    Examples:
      penstock tables plan construction-expenses --db tables.db --env staging
      penstock tables plan mytables:all --db aws://us-east-1 --exit-code
      penstock tables plan mytables:all --db aws://us-east-1 --out tables.plan --markdown

    Read only. --out writes the plan to a file, for `penstock tables apply FILE`. For a database file that does not
    exist yet, the plan is that of an empty database; the file is not made.
    """
    if markdown and as_json:
        raise click.UsageError("Give --markdown or --json, not both.")
    note_missing_file(target)
    surveyed, checks, unmanaged = _survey_target(target, named, drop, named.policy_command("plan"))
    orphans = orphans_of_plan(target, named)
    if as_json:
        told = _checks_json(checks) | _unmanaged_json(unmanaged) | {"estimate": estimate(surveyed).form()}
        print_json(survey_json(surveyed) | told | orphans.form())
    elif markdown:
        click.echo(plan_markdown(surveyed, named.source, target, orphans, _warnings(checks)), nl=False)
    else:
        show_plan(surveyed.plan)
        show_estimate(surveyed)
        show_notes(surveyed)
        show_checks(checks)
        show_under_way(surveyed.under_way)
        show_not_compared(surveyed, unmanaged)
        if orphans.text:
            click.echo(orphans.text)
    if out is not None:
        save_plan(out, surveyed, named, target)
    if exit_code and not surveyed.plan.is_empty:
        end_with(DIFFERENT)


@groups.command("apply", exit_codes={FAILED: "something failed, or the tables of a saved plan moved", **NOT_CONFIRMED})
@db_option(required=False)
@tables_or_plan_options
@drop_index_option
@click.option("--force", is_flag=True, help="With --yes: make an index even if stored items do not fit it.")
@allow_destroy_option
@change_options
def apply(
    named: NamedTables | None,
    saved: SavedPlan | None,
    target: str | None,
    drop: tuple[str, ...],
    force: bool,
    options: ChangeOptions,
) -> None:
    """Make the tables as they are defined: missing ones are created, others changed, equal ones skipped.

    \b
    Examples:
      penstock tables apply construction-expenses --db tables.db --yes
      penstock tables apply infrastructure/schemas --db aws://us-east-1 --env staging
      penstock tables apply tables.plan --yes

    DEFINITIONS may also be a file that `plan --out` wrote: exactly that plan is carried out, on the database that it
    was made for. It is refused if a table has moved meanwhile.

    Tables change in parallel, each one index at a time. The command waits for all of them. If it is interrupted or
    fails, run it again to finish. A table that no definition names is never touched. An index that no definition has
    stays, unless --drop-index names it. What destroys something (an index, a stream, point-in-time recovery, TTL on a
    table with items) needs --allow-destroy, or the table's name typed on a terminal: --yes alone refuses it.

    For a new index of a table that exists, up to 1,000 items are read first. If some have a key attribute of another
    type, every later write of such an item would fail: on a terminal the question says so, and --yes alone is refused.
    """
    if saved is not None:
        _apply_saved(saved, target, drop, force, options)
        return
    assert named is not None
    if target is None:
        raise no_target(click.get_current_context())
    policy = named.policy_command("apply")
    if options.dry_run:
        note_missing_file(target)
    surveyed, checks, _ = _survey_target(target, named, drop, policy, beside=False)
    _confirm_and_apply(target, surveyed, checks, force, options, policy)


def _apply_saved(
    saved: SavedPlan, given: str | None, drop: tuple[str, ...], force: bool, options: ChangeOptions
) -> None:
    """Carries out a saved plan where it was made for, if its tables are still as they were."""
    refuse_drop_option(drop)
    file = click.get_current_context().params["definitions"]
    target = target_of(file, saved, given)
    surveyed = saved.survey
    policy = NamedTables(saved.source, (), surveyed.naming).policy_command("apply")
    checks: tuple[IndexCheck, ...] = ()
    if missing_file(target) is None:
        with open_database(target) as db:
            require_unmoved(db, surveyed, options.state(db), next_step=f"{NEW_PLAN}.")
            checks = check_new_indexes(db, surveyed, policy=policy)  # items may have come since
    elif any(one.live is not None for one in surveyed.tables):
        raise SavedPlanRefused(file, f"the database {target} is gone")
    if not options.as_json:
        click.echo(f"Planned {saved.made_at} by {saved.made_by}, of {saved.source}.", err=True)
    _confirm_and_apply(target, surveyed, checks, force, options, policy)


def _confirm_and_apply(
    target: str, surveyed: Survey, checks: tuple[IndexCheck, ...], force: bool, options: ChangeOptions, policy: str
) -> None:
    if options.yes and not options.dry_run and not force:
        refuse_new_misfits(checks)  # nobody is asked who could have read the warning

    def show(survey: Survey) -> None:
        show_plan(survey.plan)
        show_estimate(survey)
        show_notes(survey)
        show_checks(checks)
        show_under_way(survey.under_way)

    more = _notes_json(surveyed) | _checks_json(checks)
    if confirm_plan(surveyed, options, f"Apply this to {target}?", show=show, more=more):
        with open_database(target, "made") as db:  # a file is made only now that somebody wants it
            carry_out(db, surveyed, options, policy, more=more)


def _survey_target(
    target: str, named: NamedTables, drop: tuple[str, ...], policy: str, *, beside: bool = True
) -> tuple[Survey, tuple[IndexCheck, ...], Unmanaged]:
    """Compares the definitions with a target. A file that does not exist has no tables, and is not made for that."""
    if missing_file(target) is not None:
        return survey(None, named.tables, named.naming), (), {}
    with open_database(target) as db:
        whole = forget_untold(db, survey(db, named.tables, named.naming, policy=policy))
        found = keep_added_indexes(whole, drop)
        return found, check_new_indexes(db, found, policy=policy), unmanaged_of(db, found) if beside else {}


@groups.command("verify", exit_codes={DIFFERENT: "something differs or is missing"})
@db_option()
@tables_options
@json_option
def verify(named: NamedTables, target: str, as_json: bool) -> None:
    """Compare live tables with their definitions: keys, indexes, capacity, TTL, streams and settings.

    \b
    Examples:
      penstock tables verify delphi --db http://127.0.0.1:8000
      penstock tables verify infrastructure/schemas --db aws://us-east-1 --env staging --json

    Read only.
    """
    with open_database(target) as db:
        surveyed = forget_untold(db, survey(db, named.tables, named.naming, policy=named.policy_command("verify")))
        unmanaged = unmanaged_of(db, surveyed)
    plan = surveyed.plan
    if as_json:
        print_json({"equal": plan.is_empty, **survey_json(surveyed), **_unmanaged_json(unmanaged)})
    elif plan.is_empty:
        click.echo(f"Verified: {count(len(plan.tables), 'table')} as defined.")
        show_notes(surveyed)
        show_under_way(surveyed.under_way)
        show_not_compared(surveyed, unmanaged)
    else:
        click.echo("These tables are not as defined; to be so, they need:", err=True)
        show_plan(plan)
        show_notes(surveyed)
        show_under_way(surveyed.under_way)
        show_not_compared(surveyed, unmanaged)
    if not plan.is_empty:
        end_with(DIFFERENT)


@groups.command("destroy", exit_codes={FAILED: "something failed or is protected", **NOT_CONFIRMED})
@db_option()
@tables_options
@allow_destroy_option
@change_options
def destroy(named: NamedTables, target: str, options: ChangeOptions) -> None:
    """Delete the tables that DEFINITIONS names, with their items, and wait until they are gone.

    \b
    Examples:
      penstock tables destroy delphi --db tables.db --dry-run
      penstock tables destroy construction-expenses --db aws://us-east-1 --env dev --table invitations \\
          --yes --allow-destroy

    Only these exact names, never a prefix. A table that is protected from deletion stays. On a terminal you type each
    table's name; without one, --yes --allow-destroy.
    """
    policy = named.policy_command("destroy")
    names = [named.naming.full_name(table.name) for table in named.tables]
    with open_database(target) as db:
        surveyed = survey_to_delete(db, names, named.naming, policy=policy)
        doomed = surveyed.plan.counts["delete"]
        question = f"Delete {doomed} of the tables in {db.name}, with all their items?"
        if confirm_plan(surveyed, options, question, show=_show_destroy):
            carry_out(db, surveyed, options, policy)


def _show_destroy(survey: Survey) -> None:
    if survey.plan.is_empty:
        click.echo(f"Nothing to delete: none of {count(len(survey.tables), 'table')} is there.")
        show_under_way(survey.under_way)
    else:
        show_plan(survey.plan)


@groups.command("doctor", exit_codes={DIFFERENT: "there are warnings (with --exit-code)"})
@db_option(required=False, help="Look at live tables and a sample of their items too")
@tables_options
@click.option("--exit-code", is_flag=True, help="Exit with 7 if there are warnings.")
@json_option
def doctor(named: NamedTables, target: str | None, exit_code: bool, as_json: bool) -> None:
    """Find known mistakes: hot index keys, tenant leaks, texts as TTL, items that an index cannot hold, missing PITR.

    \b
    Examples:
      penstock tables doctor security-assistant --layout compat
      penstock tables doctor construction-expenses --db aws://us-east-1 --exit-code

    With --db, live tables are looked at, and up to 1,000 items of each are read. Read only. A definition switches a
    rule off with a reason: Table(…, allow={"no-pitr": "a cache, rebuilt every night"}).
    """
    if target is None:
        findings = examine_definitions(named.tables, named.naming)
    else:
        with open_database(target) as db:
            findings = examine_live(db, named.tables, named.naming, policy=named.policy_command("doctor"))
    _show_findings(findings, as_json)
    if exit_code and any(one.severity == "warning" and not one.reason for one in findings):
        end_with(DIFFERENT)


def _show_findings(findings: Iterable[Finding], as_json: bool) -> None:
    found = tuple(findings)
    several = tuple(one for one in found if not one.reason)
    allowed = tuple(one for one in found if one.reason)
    warnings = sum(one.severity == "warning" for one in several)
    if as_json:
        members = ("rule", "severity", "table", "index", "text", "mend")
        forms = [{member: getattr(one, member) for member in members} for one in several]
        off = [{member: getattr(one, member) for member in (*members, "reason")} for one in allowed]
        print_json({"findings": forms, "warnings": warnings, "switched_off": off})
        return
    for one in several:
        click.echo(click.style(str(one), fg="yellow" if one.severity == "warning" else None))
    for one in allowed:
        click.echo(click.style(str(one), dim=True))
    off_text = f", {len(allowed):,} switched off" if allowed else ""
    click.echo(f"Doctor: {count(warnings, 'warning')}, {count(len(several) - warnings, 'note')}{off_text}.")


# ── carrying out a plan ──────────────────────────────────────────────────────────────────────────


def confirm_plan(
    survey: Survey,
    options: ChangeOptions,
    question: str,
    *,
    show: Callable[[Survey], object],
    more: dict[str, Any] | None = None,
) -> bool:
    """Shows the plan and asks. Returns whether there is something to carry out; mere waiting needs no question.

    `more` is printed with the JSON.
    """
    if not options.as_json:
        show(survey)
    if options.dry_run:
        if options.as_json:
            print_json(survey_json(survey) | (more or {}) | {"dry_run": True})
        return False
    if not survey.plan.is_empty:
        confirm_changes(survey.plan, question, options)
    return options.as_json or bool(survey.with_work)


def carry_out(
    db: Database,
    survey: Survey,
    options: ChangeOptions,
    policy: str,
    *,
    more: dict[str, Any] | None = None,
    last: bool = True,
) -> ApplyReport:
    """Applies a survey and shows the outcome. Exits with 1 after failures, with 130 after Ctrl-C.

    `policy` is the command that writes the IAM policy for it, `more` is printed with the JSON.
    If another one follows in the same command (not `last`), JSON is printed only if this one ends the command.
    """
    waits = WaitLines(options.max_wait, as_json=options.as_json)
    screen = Screen(quiet=options.as_json, waits=waits)
    try:
        report = apply_survey(
            db, survey, options.state(db), kind=click.get_current_context().info_name or "apply",
            purpose=same_command(), on_wait=waits.lease, pace=options.pace, report=screen.report, policy=policy,
        )  # fmt: skip
    except Interrupted as error:
        screen.end()
        _print_report(error.report, options.as_json, {**(more or {}), "interrupted": True})
        note = "Interrupted. Changes that have begun continue in the database; to finish, run it again:"
        click.echo(f"{note}\n  {same_command()}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    screen.end()
    if last or report.failures or not options.as_json:
        _print_report(report, options.as_json, more)
    if report.failures:
        raise click.exceptions.Exit(FAILED)
    return report


def _print_report(report: ApplyReport, as_json: bool, more: dict[str, Any] | None) -> None:
    if as_json:
        print_json(report_json(report) | (more or {}))
    else:
        show_report(report)


# ── showing plans, reports and progress ──────────────────────────────────────────────────────────

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
    lines = render_lines(plan)
    click.echo("\n".join(["".join([click.style(one.text, **_COLOURS[one.style]) for one in line]) for line in lines]))


def show_estimate(survey: Survey) -> None:
    """Time and money of the whole plan, where its lines do not say it already."""
    for line in estimate(survey).lines:
        click.echo(line)


def show_notes(survey: Survey) -> None:
    for one in survey.tables:
        if one.note:
            click.echo(f"    {one.name}   note: {one.note}")
    for name, line in rekey_advice(survey).items():
        click.echo(f"    {name}   to carry its items over into another table, run:\n      {line}")


def show_checks(checks: Iterable[IndexCheck]) -> None:
    """What the items that are there say to new indexes."""
    for one in checks:
        place, fit = f"    {one.table}   index {one.index.name}", one.fit
        if one.unread:
            click.echo(click.style(f"{place}: its items could not be looked at: {one.unread}", fg="yellow"), err=True)
        elif fit.sampled:
            click.echo(f"{place}: looked at {count(fit.sampled, 'item')}, it would have {fit.holds:,} of them")
            for text in one.warnings:
                click.echo(click.style(f"{place}: warning: {text}.", fg="yellow"), err=True)


def _warnings(checks: Iterable[IndexCheck]) -> list[str]:
    return [f"{one.table}, index {one.index.name}: {text}" for one in checks for text in one.warnings]


def _checks_json(checks: Iterable[IndexCheck]) -> dict[str, Any]:
    forms = [
        {
            "table": one.table,
            "index": one.index.name,
            "sampled": one.fit.sampled,
            "holds": one.fit.holds,
            "misfits": [str(misfit) for misfit in one.fit.misfits],
            "warning": None if one.unread else fit_warning(one.fit),
            "unread": one.unread or None,
        }
        for one in checks
    ]
    return {"index_checks": forms} if forms else {}


def show_under_way(tables: Iterable[TableSurvey]) -> None:
    for one in tables:
        assert one.live is not None
        facts = one.live.facts
        words = [f"the table is {facts.status}"] if facts.status != "ACTIVE" else []
        words += [f"index {name} is being made" for name in facts.filling]
        words += [f"index {name} is being deleted" for name in facts.leaving]
        click.echo(f"    {one.name}   under way: {', '.join(words)}")


def show_not_compared(survey: Survey, unmanaged: Unmanaged) -> None:
    for name, several in unmanaged.items():
        click.echo(f"Not compared, because it is not managed: {name}: {', '.join(several)}.")
    if survey.not_compared:
        click.echo(f"Not compared, because this endpoint does not tell: {', '.join(survey.not_compared)}.")
    if survey.untold:
        click.echo(f"Not compared, because this endpoint took it and does not tell it: {', '.join(survey.untold)}.")
    if survey.ignored:
        click.echo(f"Not compared, because the definition leaves it open: {', '.join(survey.ignored)}.")


def _unmanaged_json(unmanaged: Unmanaged) -> dict[str, Any]:
    return {"not_managed": {name: list(several) for name, several in unmanaged.items()}} if unmanaged else {}


def survey_json(survey: Survey) -> dict[str, Any]:
    return plan_json(survey.plan) | {
        "under_way": [one.name for one in survey.under_way],
        "not_compared": list(survey.not_compared),
        "ignored": list(survey.ignored),
        "untold": list(survey.untold),
        **_notes_json(survey),
    }


def _notes_json(survey: Survey) -> dict[str, Any]:
    notes = {one.name: one.note for one in survey.tables if one.note}
    advice = rekey_advice(survey)
    return ({"notes": notes} if notes else {}) | ({"rekey": advice} if advice else {})


def report_json(report: ApplyReport) -> dict[str, Any]:
    return {"counts": report.counts, "tables": [_outcome_json(one) for one in report.outcomes]}


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    words: dict[str, Any] = {
        "table": outcome.table,
        "fate": outcome.fate,
        "done": [describe_whole(change) for change in outcome.done],
    }
    if outcome.doing:
        words["doing"] = outcome.doing
    if outcome.notes:
        words["notes"] = list(outcome.notes)
    if outcome.failure is not None:
        words["failure"] = failure_json(outcome.failure)
    return words


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
    summary = report.summary
    show_failures(report.failures)
    click.echo(summary)


def show_failures(failures: Iterable[Failure]) -> None:
    for failure in failures:
        click.echo(click.style("failed ", fg="red") + str(failure), err=True)


class Screen(ProgressLine):
    """The progress of several tables in one line on a terminal; each finished change has a line of its own, and each
    reason to wait one on stderr.
    """

    def __init__(self, *, quiet: bool = False, waits: WaitLines | None = None) -> None:
        super().__init__(quiet=quiet)
        self._quiet = quiet
        self._waits = waits
        self._now: dict[str, str] = {}

    def report(self, event: object) -> None:
        match event:
            case Progress():
                self._now[event.table] = progress_text(event)
            case Waiting() if self._waits is not None and (line := self._waits.line_of(event)) is not None:
                self.end()
                click.echo(line, err=True)
            case Finished(table, change):
                self._end_change(table, f"  done  {table}   {change}")
            case AlreadyMade(table, change):
                self._end_change(table, f"  skipped  {table}   {change}   somebody else has made this change")
        if self._now:
            first, *others = self._now.values()
            # A narrow terminal cuts the end off: the progress comes first.
            self.tell((f"{len(others) + 1} tables under way; " if others else "") + first)

    def _end_change(self, table: str, text: str) -> None:
        self._now.pop(table, None)
        self.end()
        if not self._quiet:
            click.echo(text)


def progress_text(progress: Progress) -> str:
    """`CREATING, filling, about 42 %, 12 s: jobs + index by-due (due)`"""
    words = [progress.status]
    if progress.backfilling:
        words.append("filling")
    if progress.percent is not None:
        words.append(f"about {progress.percent} %")
    words.append(f"{progress.elapsed_seconds:.0f} s")
    return f"{', '.join(words)}: {progress.table} {progress.change}"
