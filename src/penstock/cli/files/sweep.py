"""`penstock files sweep`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TextIO

import click

from penstock.cli.files.options import home_argument, opened
from penstock.cli.kit.options import AgeType, confirm, dry_run_option, json_option, resumable, yes_option
from penstock.cli.kit.output import count_text, print_json, size_text
from penstock.files import Files, ListedFile, Swept
from penstock.files.file_store import Keep


@click.command("sweep")
@home_argument
@click.option("--keep", type=click.File("r"), metavar="FILE", help="The keys that are known, one a line; - is stdin.")
@click.option("--older-than", type=AgeType(), default="24h", show_default=True, help="Leave alone what is younger.")
@dry_run_option
@yes_option
@json_option
def command(home: str, keep: TextIO | None, older_than: float, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove what saves that were cut off left behind; with --keep, also every file whose key is not in FILE.

    \b
    Examples:
      penstock files sweep out/ --dry-run
      penstock files sweep s3://my-bucket/reports --keep keys.txt --older-than 7d

    A save that is under way is never touched.
    """
    files, known = opened(home), _known(keep)
    found: list[ListedFile] = []
    planned = files.sweep(known, older_than_seconds=older_than, dry_run=True, tell=found.append)
    if not as_json:
        _show(found, planned)
    if found and not dry_run:
        confirm(f"Remove {count_text(len(found))} from {files.where}?", yes=yes)
        planned = _swept(files, known, older_than, as_json)
    if as_json:
        print_json(asdict(planned) | {"dry_run": dry_run, "keys": [file.key for file in found]})


def _swept(files: Files, known: Keep | None, older_than: float, as_json: bool) -> Swept:
    with resumable("what was removed is gone, the rest is as it was."):
        swept = files.sweep(known, older_than_seconds=older_than)
    if not as_json:
        click.echo(f"Removed {count_text(swept.leftovers + swept.orphans)}, {size_text(swept.size)}.")
    return swept


def _known(keep: TextIO | None) -> Keep | None:
    if keep is None:
        return None
    keys = {line.rstrip("\r\n") for line in keep} - {""}
    if not keys:
        raise click.UsageError(f"{keep.name} has no keys, so every file would go. Give the keys that are known.")
    return keys.__contains__


def _show(found: list[ListedFile], planned: Swept) -> None:
    for file in found:
        click.echo(f"  - {file.key}   {size_text(file.size)}")
    if not found:
        click.echo("Nothing to sweep.")
        return
    told = f"{count_text(planned.leftovers, 'leftover')}, {count_text(planned.orphans, 'orphan')}"
    click.echo(f"Plan: {told}, {size_text(planned.size)}.")
