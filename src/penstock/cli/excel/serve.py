"""`penstock excel serve`."""

from __future__ import annotations

import os
import sys

import click
import orjson

from penstock.cli.excel.options import Place, place_options
from penstock.cli.kit.options import json_option, listen_options
from penstock.cli.kit.output import log_warnings
from penstock.server.auth.origins import is_loopback
from penstock.server.server import listen
from penstock.systems.excel_reports.http import excel_api
from penstock.web.server import serve

DEFAULT_PORT = 8080


@click.command("serve")
@place_options
@listen_options(DEFAULT_PORT)
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A name it may be called by; repeatable.")
@click.option("--concurrency", type=click.IntRange(0, 64), default=1, show_default=True, help="Reports at once.")
@json_option
def command(place: Place, host: str, port: int, hosts: tuple[str, ...], concurrency: int, as_json: bool) -> None:
    """Take wishes for reports by HTTP, and make them.

    \b
    Examples:
      penstock excel serve --db reports.db
      curl -i -H 'Content-Type: application/json' -d '{"idProject": "mlab_bodwassho_usa_3"}' \\
           http://127.0.0.1:8080/generate-report
      curl http://127.0.0.1:8080/jobs/job_mbzlks74_rfi5i0

    GET /openapi.json describes it all. With --concurrency 0 the reports are left to `penstock excel worker`.
    """
    log_warnings()
    if not is_loopback(host):
        click.echo(f"Warning: {host} can be reached from other machines, and nobody is asked who they are.", err=True)
    sockets = listen(host, port)  # before the file is made: a taken port leaves nothing behind
    with place.opened("made") as service:

        def ready(url: str) -> None:
            form = {"url": url, "db": place.url, "pid": os.getpid()}
            text = orjson.dumps(form).decode() if as_json else f"Excel reports are at {url} (stop with Ctrl+C)"
            click.echo(text)
            sys.stdout.flush()

        serve(excel_api(service, hosts=hosts, concurrency=concurrency), sockets, ready)
