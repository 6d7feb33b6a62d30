"""`penstock tables terraform`: the same definitions as Terraform resources."""

from __future__ import annotations

from pathlib import Path

import click
import orjson

from penstock.cli.tables.options import (
    definitions_argument,
    json_option,
    naming_options,
    order_of,
    tables_option,
    unused_url_option,
)
from penstock.cli.tables.written import out_file_option, write
from penstock.tables.terraform import template_text


@click.command("terraform")
@definitions_argument
@unused_url_option
@naming_options
@tables_option
@out_file_option
@json_option
def command(
    definitions: str,
    env: str | None,
    prefix: str | None,
    layout: str,
    only: tuple[str, ...],
    out: Path | None,
    as_json: bool,
) -> None:
    """Write the tables as Terraform resources. No database is asked.

    \b
    Examples:
      penstock tables terraform construction-expenses --env staging
      penstock tables terraform infrastructure/schemas --out tables.tf
    """
    order = order_of(definitions, env=env, prefix=prefix, layout=layout, only=only)
    text = template_text(order.tables, order.naming)
    write(orjson.dumps({"file": "tables.tf", "text": text}).decode() + "\n" if as_json else text, out)
