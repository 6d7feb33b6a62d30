"""`penstock files lifecycle`."""

from __future__ import annotations

import click

from penstock.cli.files.options import home_argument
from penstock.cli.kit.options import confirm, dry_run_option, json_option, resumable, yes_option
from penstock.cli.kit.output import print_json
from penstock.files import open_files
from penstock.files.bucket import BucketFiles
from penstock.files.lifecycle import EXPIRY_DAYS, Change, apply, described, inspected, planned


@click.command("lifecycle")
@home_argument
@click.option(
    "--days", type=click.IntRange(1, 36_500), default=EXPIRY_DAYS, show_default=True, help="Files live so long."
)
@dry_run_option
@yes_option
@json_option
def command(home: str, days: int, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Have the bucket of HOME keep its files as they should be kept.

    Moved to Intelligent-Tiering at once, deleted after 90 days, encrypted by S3, not versioned; staging and uploads
    that were never finished go after a day. With a prefix, tiering and deletion are of the files under it; encryption
    and versioning are the whole bucket's. Rules that others made are kept.

    \b
    Examples:
      penstock files lifecycle s3://my-bucket --dry-run
      penstock files lifecycle s3://my-bucket/reports --days 30 --yes
    """
    files = open_files(home)
    if not isinstance(files, BucketFiles):
        raise click.UsageError(f"{home} is a folder; only a bucket has a lifecycle. Give s3://bucket.")
    changes = planned(inspected(files.s3), files.prefix, days)
    if not as_json:
        _show(files.where, changes)
    if changes and not dry_run:
        confirm(f"Change the settings of s3://{files.s3.bucket}? Files older than {days} days are deleted.", yes=yes)
        with resumable("the settings before the one it was at are made."):
            apply(files.s3, changes)
        if not as_json:
            click.echo("Done.")
    if as_json:
        lines = [line for change in changes for line in described(change)]
        print_json({"home": files.where, "changes": lines, "applied": bool(changes) and not dry_run})


def _show(where: str, changes: tuple[Change, ...]) -> None:
    click.echo(where)
    for change in changes:
        for line in described(change):
            click.echo(f"  ~ {line}")
    if not changes:
        click.echo("  all as it should be")
