"""`penstock dynamodb-local`: `penstock serve`, started with the options of DynamoDB Local."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.database import serve
from penstock.cli.kit import groups
from penstock.server.server import DEFAULT_PORT

TRANSIENT_SECONDS = 2.0
"""How long -delayTransientStatuses keeps tables and indexes CREATING: long enough to be seen, as DynamoDB Local's."""


@groups.command("dynamodb-local", context_settings={"help_option_names": ["-h", "--help", "-help"]})
@click.option("-inMemory", "in_memory", is_flag=True, help="Keep the data in memory.")
@click.option(
    "-dbPath", "db_path", type=click.Path(exists=True, file_okay=False), metavar="DIR",
    help=f"The folder of the database file, {serve.DEFAULT_FILE}.  [default: the current folder]",
)  # fmt: skip
@click.option("-sharedDb", "shared_db", is_flag=True, help="One set of tables for all access keys and regions.")
@click.option("-port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="The port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address; DynamoDB Local takes all of them.")
@click.option("-cors", metavar="ORIGINS", help="Let web pages of these origins call: a list with commas, or *.")
@click.option(
    "-delayTransientStatuses", "delay", is_flag=True,
    help=f"Keep new tables and indexes CREATING for {TRANSIENT_SECONDS:g} seconds.",
)  # fmt: skip
@click.option("-optimizeDbBeforeStartup", "optimize", is_flag=True, help="Taken, without effect: there is no need.")
@click.option("-disableTelemetry", "telemetry", is_flag=True, help="Taken, without effect: nothing is sent anywhere.")
@click.option("-jar", "jar", metavar="FILE", help="Taken, without effect: there is no Java.")
@click.option("-Djava.library.path", "library_path", metavar="DIR", help="The same.")
@click.option("--json", "as_json", is_flag=True, help="Print the ready line as JSON: url, db, pid.")
@click.pass_context
def command(
    ctx: click.Context,
    in_memory: bool,
    db_path: str | None,
    shared_db: bool,
    port: int,
    host: str,
    cors: str | None,
    delay: bool,
    optimize: bool,
    telemetry: bool,
    jar: str | None,
    library_path: str | None,
    as_json: bool,
) -> None:
    """Run a DynamoDB on a port, started with the options of DynamoDB Local.

    In a script, put `penstock dynamodb-local` in the place of `java`, or of `java -jar DynamoDBLocal.jar`. The file is
    not DynamoDB Local's: its shared-local-instance.db is neither read nor changed. New programs use `penstock serve`.

    \b
    Examples:
      penstock dynamodb-local -inMemory -sharedDb
      penstock dynamodb-local -sharedDb -dbPath data -port 8001
      penstock dynamodb-local -inMemory --host 0.0.0.0
    """
    if in_memory and db_path is not None:
        raise click.UsageError("Give either -inMemory or -dbPath, not both.")
    if optimize and db_path is None:
        raise click.UsageError("-optimizeDbBeforeStartup needs -dbPath DIR, as DynamoDB Local says.")
    seconds = TRANSIENT_SECONDS if delay else 0.0
    ctx.invoke(
        serve.command,
        db=None if in_memory else str(Path(db_path or ".") / serve.DEFAULT_FILE),
        memory=in_memory,
        host=host,
        port=port,
        per_account=not shared_db,
        origins=tuple(origin.strip() for origin in cors.split(",") if origin.strip()) if cors else (),
        table_delay=seconds,
        index_delay=seconds,
        as_json=as_json,
    )
