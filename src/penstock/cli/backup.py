"""`penstock backup`: a copy of a database file that may be in use."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from penstock.cli.kit.exit_codes import INTERRUPTED
from penstock.cli.kit.options import confirm, json_option, yes_option
from penstock.cli.kit.output import ByteLine, count_text, print_json, size_text
from penstock.engine.storage.file_copy import Copied, copy_file, refuse_place
from penstock.engine.storage.read_only import open_to_look


@click.command("backup")
@click.argument("source")
@click.argument("dest")
@yes_option
@json_option
def command(source: str, dest: str, yes: bool, as_json: bool) -> None:
    """Copy the database file SOURCE to DEST, while other processes use it.

    \b
    Examples:
      penstock backup jobs.db backups/jobs-monday.db
      penstock backup jobs.db /mnt/nas/jobs.db --yes --json

    The copy is SOURCE at one moment, checked page by page; open it like any other database. Nobody waits meanwhile.
    Where it fails, or is interrupted, nothing is left at DEST, and what was there before is still there.

    Exit codes: 0 copied, 1 failed, 2 called wrongly or not confirmed.
    """
    open_to_look(source).close()
    refuse_place(source, dest, replace=True)
    if Path(dest).exists():
        confirm(f"{dest} is there already. Replace it?", yes=yes)
        yes = True
    line = ByteLine(Path(source).stat().st_size, quiet=as_json)
    done = 0

    def progress(now: int, _total: int) -> None:
        nonlocal done
        line.add(now - done)
        done = now

    try:
        copied = copy_file(source, dest, replace=yes, progress=progress)
    except KeyboardInterrupt:
        click.echo("\nInterrupted: no copy was left.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        line.end()
    if as_json:
        print_json(asdict(copied))
    else:
        click.echo(_text(copied))


def _text(copied: Copied) -> str:
    what = f"{count_text(copied.tables, 'table')}, {size_text(copied.bytes)}"
    return f"{copied.copy}: {what}, copied from {copied.source} and checked, in {copied.seconds:.1f} s"
