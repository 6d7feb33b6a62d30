"""`penstock tables policy`: the least IAM policy."""

from __future__ import annotations

import os
from pathlib import Path

import click

from penstock.cli.kit.options import json_option, out_file_option
from penstock.cli.kit.output import write_text
from penstock.cli.tables.options import naming_options, order_of, tables_option, unused_url_option
from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.naming import Naming
from penstock.tables.plan.iam_policy import COMMANDS, policy, policy_text


@click.command("policy")
@click.argument("definitions", required=False)
@unused_url_option
@naming_options
@tables_option
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="A table by its full name, beside those of DEFINITIONS: what rekey, restore and load make; repeatable.",
)
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
    definitions: str | None,
    env: str | None,
    prefix: str | None,
    layout: str,
    only: tuple[str, ...],
    names: tuple[str, ...],
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
      penstock tables policy --for rekey --name Embeddings --name Embeddings2
    """
    del as_json  # a policy is JSON
    tables: tuple[Table, ...] = ()
    if definitions is None:
        if not names:
            raise click.UsageError("Give DEFINITIONS, or tables with --name.")
        naming = Naming.of(os.environ, prefix=prefix, environment=env)
    else:
        order = order_of(definitions, env=env, prefix=prefix, layout=layout, only=only)
        tables, naming = order.tables, order.naming
    document = policy(commands, tables, naming, region=region, account=account, partition=partition, also=names)
    write_text(policy_text(document), out)
