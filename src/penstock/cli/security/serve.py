"""`penstock security serve`."""

from __future__ import annotations

import os
import sys
from typing import TextIO

import click
import orjson

from penstock.cli.kit.options import json_option, listen_options
from penstock.cli.kit.output import log_warnings
from penstock.cli.security.options import agents_option, opened, storage_options
from penstock.server.auth.origins import is_loopback
from penstock.server.server import listen
from penstock.systems.security_assistant.agents import default_agents, load_agents
from penstock.systems.security_assistant.http import Tenants, security_api
from penstock.systems.security_assistant.names import part_of
from penstock.web.server import serve

DEFAULT_PORT = 8080


@click.command("serve")
@listen_options(DEFAULT_PORT)
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A name it may be called by; repeatable.")
@click.option("--concurrency", type=click.IntRange(0, 64), default=1, show_default=True, help="Drawings at once.")
@click.option(
    "--tokens",
    type=click.File("r"),
    metavar="FILE",
    help="Lines of COMPANY TOKEN: who has a company's token sees that company's jobs, and only those.",
)
@agents_option
@storage_options
@json_option
def command(
    host: str,
    port: int,
    hosts: tuple[str, ...],
    concurrency: int,
    tokens: TextIO | None,
    agents: str | None,
    as_json: bool,
    **place: str | None,
) -> None:
    """Take drawings over HTTP, and process them.

    \b
    Examples:
      penstock security serve --db jobs.db
      curl -F file=@drawing.pdf -F company_id=7central -F client_name=Acme -F project_name=Tower \\
           http://127.0.0.1:8080/process-drawing
      curl 'http://127.0.0.1:8080/status/job_mbzlks74_rfi5i0?company=7central'

    GET /openapi.json describes it all. With --concurrency 0 the drawings are left to `penstock security worker`.
    """
    log_warnings()
    tenants = Tenants(_tokens(tokens.read() if tokens is not None else ""))
    if not is_loopback(host) and not tenants.tokens:
        click.echo(f"Warning: {host} can be reached from other machines, and nobody is asked who they are.", err=True)
    sockets = listen(host, port)  # before anything is made: a taken port leaves nothing behind
    with opened(place, make=True) as storage:
        made = load_agents(agents) if agents else default_agents()
        face = security_api(storage, agents=made, tenants=tenants, hosts=hosts, concurrency=concurrency)

        def ready(url: str) -> None:
            form = {"url": url, "storage": storage.shelf.where, "pid": os.getpid()}
            told = f"The security assistant is at {url} (stop with Ctrl+C)"
            click.echo(orjson.dumps(form).decode() if as_json else told)
            sys.stdout.flush()

        serve(face, sockets, ready)


def _tokens(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise click.UsageError(f"Line {number} of the tokens is not COMPANY TOKEN.")
        found[words[1]] = part_of(words[0], "company_id")
    return found
