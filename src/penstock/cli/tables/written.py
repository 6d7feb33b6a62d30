"""How the commands that write a text end: to a file, or to the screen."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.tables.formats.export import write_whole

out_file_option = click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="A file; else it is printed."
)


def write(text: str, out: Path | None) -> None:
    if out is None:
        click.echo(text, nl=False)
    else:
        write_whole(out, text)
        click.echo(f"Written: {out}", err=True)
