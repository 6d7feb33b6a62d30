"""`penstock jobs policy`: the least IAM policy for programs that use jobs."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.kit.options import out_file_option
from penstock.cli.kit.output import write_text
from penstock.jobs.iam_policy import ROLES, policy
from penstock.jobs.layouts.tables import DEFAULT_TABLE
from penstock.tables.plan.iam_policy import policy_text


@click.command("policy")
@click.option(
    "--for",
    "roles",
    multiple=True,
    type=click.Choice(ROLES),
    default=("enqueue", "work"),
    show_default=True,
    help="What the program does; repeatable.",
)
@click.option("--table", default=DEFAULT_TABLE, show_default=True, envvar="PENSTOCK_JOBS_TABLE", metavar="NAME")
@click.option("--files", envvar="PENSTOCK_FILES", metavar="URL", help="Where its files are: s3://bucket/prefix.")
@click.option("--region", default="*", show_default=True, metavar="NAME")
@click.option("--account", default="*", show_default=True, metavar="ID")
@click.option("--partition", default="aws", show_default=True, metavar="NAME", help="aws, aws-cn, aws-us-gov.")
@out_file_option
def command(
    roles: tuple[str, ...],
    table: str,
    files: str | None,
    region: str,
    account: str,
    partition: str,
    out: Path | None,
) -> None:
    """Write the least IAM policy for programs that enqueue jobs, run them, look at them or manage them.

    \b
    Examples:
      penstock jobs policy --files s3://bucket/jobs --account 123456789012
      penstock jobs policy --for enqueue --out enqueue.json
      penstock jobs policy --for look --for manage

    The table itself is made by another: `penstock tables policy jobs --for apply`.
    """
    write_text(
        policy_text(policy(roles, table=table, files=files, region=region, account=account, partition=partition)), out
    )
