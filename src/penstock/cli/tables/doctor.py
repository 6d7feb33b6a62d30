"""`penstock tables doctor`: known mistakes, and how to mend each."""

from __future__ import annotations

from collections.abc import Iterable

import click

from penstock.cli.kit.databases import open_database
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json
from penstock.cli.tables.options import Order, ordered
from penstock.tables.doctor.examine import examine_definitions, examine_live
from penstock.tables.doctor.rules import Finding
from penstock.tables.plan.costs import count


@click.command("doctor")
@click.option(
    "--url",
    envvar="PENSTOCK_URL",
    metavar="URL",
    help="Look at live tables and a sample of their items too. Also PENSTOCK_URL.",
)
@ordered
@click.option("--exit-code", is_flag=True, help="Exit with 1 if there are warnings.")
@json_option
def command(order: Order, url: str | None, exit_code: bool, as_json: bool) -> None:
    """Find known mistakes: hot index keys, tenant leaks, texts as TTL, items that an index cannot hold, missing PITR.

    \b
    Examples:
      penstock tables doctor security-assistant --layout compat
      penstock tables doctor construction-expenses --url aws://us-east-1 --exit-code

    With --url, live tables are looked at, and up to 1,000 items of each are read. Read only.

    Exit codes: 0 done; 1 failed, or warnings with --exit-code.
    """
    if url is None:
        findings = examine_definitions(order.tables, order.naming)
    else:
        with open_database(url) as db:
            findings = examine_live(db, order.tables, order.naming, policy=order.policy_command("doctor"))
    _show(findings, as_json)
    if exit_code and any(one.severity == "warning" for one in findings):
        raise click.exceptions.Exit(1)


def _show(findings: Iterable[Finding], as_json: bool) -> None:
    several = tuple(findings)
    warnings = sum(one.severity == "warning" for one in several)
    if as_json:
        members = ("rule", "severity", "table", "index", "text", "mend")
        found = [{member: getattr(one, member) for member in members} for one in several]
        print_json({"findings": found, "warnings": warnings})
        return
    for one in several:
        click.echo(click.style(str(one), fg="yellow" if one.severity == "warning" else None))
    click.echo(f"Doctor: {count(warnings, 'warning')}, {count(len(several) - warnings, 'note')}.")
