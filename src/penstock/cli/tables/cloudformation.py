"""`penstock tables cloudformation`: the same definitions as a CloudFormation template."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.kit.options import json_option, out_file_option
from penstock.cli.kit.output import write_text
from penstock.cli.tables.options import Order, ordered, unused_url_option
from penstock.tables.formats.cloudformation import template_text


@click.command("cloudformation")
@unused_url_option
@ordered
@out_file_option
@json_option
def command(order: Order, out: Path | None, as_json: bool) -> None:
    """Write the tables as a CloudFormation template. No database is asked.

    \b
    Examples:
      penstock tables cloudformation construction-expenses --env staging
      penstock tables cloudformation infrastructure/schemas --out template.json
    """
    del as_json  # a template is JSON
    write_text(template_text(order.tables, order.naming), out)
