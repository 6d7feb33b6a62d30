"""`penstock files verify`."""

from __future__ import annotations

from dataclasses import asdict

import click

from penstock.cli.files.options import home_argument, opened
from penstock.cli.kit.options import json_option, resumable
from penstock.cli.kit.output import ByteLine, count_text, print_json, size_text
from penstock.files.verifying import Verified, verify


@click.command("verify")
@home_argument
@click.argument("prefix", default="")
@json_option
def command(home: str, prefix: str, as_json: bool) -> None:
    """Read every file of HOME whose key begins with PREFIX, and compare it with the hash that it was saved with.

    \b
    Examples:
      penstock files verify out/
      penstock files verify s3://my-bucket/reports jobs/j1/ --json

    Exit codes: 0 all as they were saved, 1 some changed or gone.
    """
    line = ByteLine(quiet=as_json)
    with resumable("it reads only, so nothing has changed."):
        found = verify(opened(home), prefix, line.add)
    line.end()
    if as_json:
        print_json(_form(found))
    else:
        _show(found)
    if not found.good:
        raise click.exceptions.Exit(1)


def _form(found: Verified) -> dict[str, object]:
    pairs = {name: dict(getattr(found, name)) for name in ("changed", "lost")}
    return asdict(found) | pairs | {"good": found.good}


def _show(found: Verified) -> None:
    for what, pairs in (("changed", found.changed), ("lost", found.lost)):
        for key, reason in pairs:
            click.echo(f"{click.style(what, fg='red')}  {key}: {reason}")
    told = f"{count_text(found.files)}, {size_text(found.size)}"
    if found.unknown:
        told += f", {found.unknown:,} of them without a hash (not saved by Penstock)"
    wrong = f"{len(found.changed):,} changed, {len(found.lost):,} lost"
    click.echo(f"{told}: {'as they were saved' if found.good else wrong}.")
