"""`penstock security sample`."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json
from penstock.systems.security_assistant.sample import Building


@click.command("sample")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--levels", type=click.IntRange(1, 40), default=2, show_default=True)
@click.option("--doors", type=click.IntRange(2, 16), default=12, show_default=True, help="Of each level.")
@click.option("--force", is_flag=True, help="Replace TARGET if it is there.")
@json_option
def command(target: Path, levels: int, doors: int, force: bool, as_json: bool) -> None:
    """Write a drawing of a building that there is not to TARGET, to try it with.

    \b
    Example:
      penstock security sample drawing.pdf --levels 3
    """
    if target.exists() and not force:
        raise click.UsageError(f"{target} is there already. Give --force to replace it.")
    building = Building(levels=levels, doors=doors)
    data = building.pdf()
    target.write_bytes(data)
    counts = building.counts()
    if as_json:
        print_json({"file": str(target), "size": len(data), "counts": counts})
    else:
        told = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        click.echo(f"{target}: {len(data):,} bytes; {sum(counts.values())} components: {told}")
