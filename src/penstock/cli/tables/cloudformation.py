"""`penstock tables cloudformation`: the same definitions as a CloudFormation template."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.tables.options import (
    definitions_argument,
    json_option,
    naming_options,
    order_of,
    tables_option,
    unused_url_option,
)
from penstock.cli.tables.written import out_file_option, write
from penstock.tables.cloudformation import template_text


@click.command("cloudformation")
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
    """Write the tables as a CloudFormation template. No database is asked.

    \b
    Examples:
      penstock tables cloudformation construction-expenses --env staging
      penstock tables cloudformation infrastructure/schemas --out template.json
    """
    del as_json  # a template is JSON
    order = order_of(definitions, env=env, prefix=prefix, layout=layout, only=only)
    write(template_text(order.tables, order.naming), out)
