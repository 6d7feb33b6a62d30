"""`penstock tables policy`: the least IAM policy."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.tables.options import Order, json_option, ordered, unused_url_option
from penstock.cli.tables.written import out_file_option, write
from penstock.tables.policy import COMMANDS, policy, policy_text


@click.command("policy")
@unused_url_option
@ordered
@click.option(
    "--for",
    "commands",
    multiple=True,
    type=click.Choice(COMMANDS),
    default=("plan", "apply", "verify", "export"),
    show_default=True,
    help="A command that the policy allows; repeatable.",
)
@click.option("--region", metavar="NAME", help="[AWS_REGION, else us-east-1]")
@click.option("--account", default="*", show_default=True, metavar="ID")
@click.option("--partition", default="aws", show_default=True, metavar="NAME", help="aws, aws-cn, aws-us-gov.")
@out_file_option
@json_option
def command(
    order: Order,
    commands: tuple[str, ...],
    region: str | None,
    account: str,
    partition: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Write the least IAM policy for commands and tables: these actions, on these tables, and nothing else.

    \b
    Examples:
      penstock tables policy construction-expenses --env staging --for plan --for apply
      penstock tables policy delphi --for export --account 123456789012 --out policy.json
    """
    del as_json  # a policy is JSON
    document = policy(commands, order.tables, order.naming, region=region, account=account, partition=partition)
    write(policy_text(document), out)
