"""`penstock tables terraform`: the same definitions as Terraform resources."""

from __future__ import annotations

from pathlib import Path

import click
import orjson

from penstock.cli.kit.options import json_option, out_file_option
from penstock.cli.kit.output import write_text
from penstock.cli.tables.options import Order, ordered, unused_url_option
from penstock.tables.formats.terraform import template_text


@click.command("terraform")
@unused_url_option
@ordered
@out_file_option
@json_option
def command(order: Order, out: Path | None, as_json: bool) -> None:
    """Write the tables as Terraform resources. No database is asked.

    \b
    Examples:
      penstock tables terraform construction-expenses --env staging
      penstock tables terraform infrastructure/schemas --out tables.tf
    """
    text = template_text(order.tables, order.naming)
    write_text(orjson.dumps({"file": "tables.tf", "text": text}).decode() + "\n" if as_json else text, out)
