"""`penstock serve`: the engine on a port, until it is stopped or its file is lost."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Literal

import click

from penstock.cli.kit import groups
from penstock.cli.kit.options import check_target, listen_options
from penstock.engine import Engine
from penstock.engine.settings import Settings, Throttling
from penstock.engine.storage.file_watch import LOOK_SECONDS
from penstock.engine.transfers.buckets import Buckets
from penstock.errors import DatabaseLost, StorageError
from penstock.server.auth.authorization import is_loopback
from penstock.server.server import DEFAULT_PORT, Options, listen, serve

DEFAULT_FILE = "penstock.db"
_SECONDS = click.FloatRange(min=0)


@groups.command("serve")
@click.option("--db", metavar="FILE", help=f"The database file; made if absent.  [default: {DEFAULT_FILE}]")
@click.option("--memory", is_flag=True, help="Keep the data in memory: it is gone when the server stops.")
@listen_options(DEFAULT_PORT)
@click.option(
    "--sync",
    type=click.Choice(["normal", "full"]),
    default="normal",
    show_default=True,
    help="normal survives a crash of the process; full also survives a power cut, with a sync for each commit.",
)
@click.option("--per-account", is_flag=True, help="Keep the tables of each access key and region apart.")
@click.option("--credentials", metavar="FILE", help="Check signatures against the access keys in FILE.")
@click.option(
    "--allow-origin", "origins", multiple=True, metavar="ORIGIN",
    help="Let web pages of this origin call, such as https://app.example; * for all. Pages of this machine always may.",
)  # fmt: skip
@click.option("--ttl-lag", type=_SECONDS, default=0, metavar="SECONDS", help="How late TTL deletes an expired item.")
@click.option("--table-delay", type=_SECONDS, default=0, metavar="SECONDS", help="How long a table is CREATING.")
@click.option("--index-delay", type=_SECONDS, default=0, metavar="SECONDS", help="How long a new index is CREATING.")
@click.option(
    "--buckets", metavar="PLACE", help="For exports and imports: a folder of buckets, s3:// or an S3 endpoint's URL."
)
@click.option("--throttle", is_flag=True, help="Enforce throughput limits, as DynamoDB does; includes --heat.")
@click.option("--heat", is_flag=True, help="Count units by key and partition, for `penstock heat`.")
@click.option("--quiet", is_flag=True, help="Print nothing when ready.")
@click.option("--json", "as_json", is_flag=True, help="Print the ready line as JSON: url, db, pid.")
def command(
    db: str | None,
    memory: bool,
    host: str,
    port: int,
    sync: Literal["normal", "full"],
    per_account: bool,
    credentials: str | None,
    origins: tuple[str, ...],
    ttl_lag: float,
    table_delay: float,
    index_delay: float,
    buckets: str | None,
    throttle: bool,
    heat: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run a DynamoDB on a port. Any AWS SDK, the AWS CLI and any GUI works with it.

    Stop it with Ctrl+C or SIGTERM: it answers the requests it has begun, then stops. A second signal stops it at once.

    \b
    Examples:
      penstock serve
      penstock serve --db orders.db --port 8001
      penstock serve --memory --port 0 --json
      aws dynamodb list-tables --endpoint-url http://127.0.0.1:8000

    This command does not read PENSTOCK_DB: clients do, and it may name this very server.

    A credentials file is JSON, {"ACCESSKEY": "secret"}, or the AWS CLI's own ini format.
    """
    # Vectors are multiplied as fast as memory is read: a second thread of NumPy's library costs more than it gains.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    path = _path(db, memory=memory)
    secrets = _secrets(credentials)
    if secrets is None and not is_loopback(host):
        click.echo(
            f"Warning: {host} can be reached from other machines, and signatures are not checked. "
            "Give --credentials FILE, or listen on 127.0.0.1.",
            err=True,
        )
    settings = Settings(
        synchronous=sync,
        ttl_lag_seconds=ttl_lag,
        table_delay_seconds=table_delay,
        index_delay_seconds=index_delay,
        throttling=Throttling() if throttle else None,
        heat=heat,
    )
    options = Options(per_account=per_account, secrets=secrets, origins=origins)

    def ready(url: str) -> None:
        if not quiet:
            click.echo(_ready_line(url, path, as_json))
            sys.stdout.flush()

    places = _buckets(buckets)
    sockets = listen(host, port)  # before the file is made: a taken port leaves nothing behind
    with Engine(path, settings=settings, buckets=places) as engine:
        stop_with_file(engine)
        serve(engine, sockets, options, ready)
        engine.store.watch.refuse_lost()


def _path(db: str | None, *, memory: bool) -> str:
    if memory and db is not None:
        raise click.UsageError("Give either --db FILE or --memory, not both.")
    if db is not None and "://" in db:
        raise click.UsageError(f"--db {db}: a file is served, or :memory:; this one is served already.")
    return ":memory:" if memory else check_target(db or DEFAULT_FILE)


def _ready_line(url: str, path: str, as_json: bool) -> str:
    if as_json:
        import orjson

        return orjson.dumps({"url": url, "db": path, "pid": os.getpid()}).decode()
    what = "in memory" if path == ":memory:" else f"in {path}"
    return f"Penstock is ready at {url} ({what}; stop with Ctrl+C)"


def _buckets(place: str | None) -> Buckets | None:
    if place is None:
        return None
    from penstock.files.buckets import open_buckets  # seldom needed, and start is timed

    return open_buckets(place)


def _secrets(file: str | None) -> dict[str, str] | None:
    if file is None:
        return None
    from penstock.server.auth.credentials import load_credentials  # seldom needed, and start is timed

    return load_credentials(file)


# ── the file is lost ─────────────────────────────────────────────────────────────────────────────


def stop_with_file(engine: Engine) -> None:
    """Stops this process when the engine's file was deleted, replaced or overwritten, even if no request comes.

    Such a server can answer nothing. Its supervisor starts it again, on the file that is there.
    """
    if not engine.store.memory:
        engine.when_lost(_stop_this_process)
        threading.Thread(target=_watch_file, args=(engine,), name="penstock-watch", daemon=True).start()


def _stop_this_process(reason: str) -> None:
    """Like SIGTERM: requests that have begun are answered, with the error."""
    click.echo(f"Stopping: {reason}", err=True)
    os.kill(os.getpid(), signal.SIGTERM)


def _watch_file(engine: Engine) -> None:
    while not engine.store.closed:
        time.sleep(LOOK_SECONDS)
        try:
            engine.store.watch.look()
        except DatabaseLost:
            return
        except StorageError:
            continue  # the file cannot be examined: calls that need it report that
