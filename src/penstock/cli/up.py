"""`penstock up`: the dashboard, and if asked the DynamoDB endpoint and a worker, in one process."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from penstock.cli.database.serve import DEFAULT_FILE, stop_with_file
from penstock.cli.kit import databases, groups
from penstock.cli.kit.completion import complete_definitions, complete_tables
from penstock.cli.kit.logs import log_warnings
from penstock.cli.kit.options import db_option, files_option, listen_options
from penstock.client.database import Database
from penstock.client.transports.endpoints import MEMORY
from penstock.errors import DatabaseLost
from penstock.files import Files, open_files
from penstock.jobs.app import App, load_app
from penstock.jobs.layouts.tables import DEFAULT_TABLE
from penstock.jobs.metrics.worker_metrics import WorkerMetrics
from penstock.jobs.worker.worker import Worker
from penstock.registry import system_tables
from penstock.server.auth.authorization import is_loopback
from penstock.server.server import listen, running_server
from penstock.tables.definitions.sources import load

if TYPE_CHECKING:
    from penstock.web.dashboard.source import Source

DEFAULT_PORT = 8321
_STOP_SECONDS = 35


@groups.command("up")
@db_option(
    required=False, help="What to look at",
    note="Without it: the worker's database, the one .db file of this folder, or penstock.db. A new file is made.",
)  # fmt: skip
@listen_options(DEFAULT_PORT)
@click.option("--worker", "worker_app", metavar="MODULE:APP", help="Also run this app's jobs, in this process.")
@click.option("--serve", "serve_port", type=click.IntRange(0, 65535), metavar="PORT", help="Also a DynamoDB on PORT.")
@click.option("--api", "with_api", is_flag=True, help="Also the HTTP API, at /api/v1 (docs/http-api.md).")
@click.option("--read-only", is_flag=True, help="Change nothing: every POST is refused.")
@click.option(
    "--token", envvar="PENSTOCK_DASHBOARD_TOKEN", metavar="TEXT",
    help="The token that visitors need. Generated if --host is not only this machine. Also PENSTOCK_DASHBOARD_TOKEN.",
)  # fmt: skip
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Another host name to accept.")
@click.option(
    "--table", default=DEFAULT_TABLE, show_default=True, envvar="PENSTOCK_JOBS_TABLE", metavar="NAME",
    shell_complete=complete_tables, help="The table of the jobs.",
)  # fmt: skip
@files_option
@click.option(
    "--definitions", metavar="DEFINITIONS", shell_complete=complete_definitions,
    help="Definitions to compare tables with: MODULE:NAME, a folder of exports, or a system.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="Print nothing when ready.")
@click.option("--json", "as_json", is_flag=True, help="Print the ready line as JSON: url, db, endpoint, pid.")
def command(
    target: str | None,
    host: str,
    port: int,
    worker_app: str | None,
    serve_port: int | None,
    with_api: bool,
    read_only: bool,
    token: str | None,
    hosts: tuple[str, ...],
    table: str,
    files: str | None,
    definitions: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run the dashboard: jobs, workers, tables and records in a browser.

    Stop it with Ctrl+C: a worker that runs here finishes its tasks or requeues them.

    \b
    Examples:
      penstock up                                       the .db file of this folder, at http://127.0.0.1:8321
      penstock up --db reports.db --worker reports:app  with a worker
      penstock up --db reports.db --serve 8000          with a DynamoDB for every AWS SDK
      penstock up --db reports.db --api                 with the HTTP API, at /api/v1
      penstock up --db aws://eu-west-2 --read-only     look at AWS, change nothing
      penstock up --host 0.0.0.0                        from other machines, with a token
    """
    from penstock.web.dashboard.app import make_dashboard, serve_dashboard
    from penstock.web.dashboard.source import Source

    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(18)
    wanted = None if definitions is None else load(definitions, system_tables(), variables=os.environ)
    sockets = listen(host, port)  # before a file is made: a taken port leaves nothing behind
    with ExitStack() as stack:
        stack.callback(_close, sockets)
        app = None if worker_app is None else stack.enter_context(load_app(worker_app))
        log_warnings()
        place, db = _database(stack, target, app, with_heat=serve_port is not None)
        endpoint = None if serve_port is None else stack.enter_context(_endpoint(db, serve_port))
        kept = app.store.files if app is not None and target is None else _files(place, files)
        tasks = {} if app is None else app.tasks
        source = Source(db, table=table, files=kept, tasks=tasks, definitions=wanted)
        known = [host, socket.gethostname(), *hosts]
        shared: dict[str, Any] = {"token": token, "read_only": read_only, "hosts": known}
        metrics = None if app is None else WorkerMetrics(lambda: app.store, ("default",), with_queues=False)
        api = _jobs_api(source, place, app, shared) if with_api else None
        dashboard = make_dashboard(source, **shared, api=api, metrics=None if metrics is None else metrics.registry)
        if app is not None:
            stack.enter_context(_running_worker(app, metrics))

        told = partial(_announce, host=host, place=place, endpoint=endpoint, token=token, as_json=as_json)
        with _stopping_with_file(db), _calm_end(with_worker=app is not None):
            serve_dashboard(dashboard, sockets, (lambda address: None) if quiet else told)


@contextmanager
def _stopping_with_file(db: Database) -> Iterator[None]:
    """Ends the block when somebody takes the file of the database away, and says so then."""
    engine = db.engine if db.capabilities.has_engine else None
    if engine is not None:
        stop_with_file(engine)
    yield
    if engine is not None:
        engine.store.watch.refuse_lost()


def _jobs_api(source: Source, place: str, app: App | None, shared: dict[str, Any]) -> Any:
    """The HTTP API; of the worker's app, where that has the database that is shown: its tasks check their arguments."""
    from penstock.web.jobs_api import jobs_api

    beside = app if app is not None and _is_same_database(place, app.store.db.name) else None
    return jobs_api(source, beside, **shared)


@contextmanager
def _calm_end(*, with_worker: bool) -> Iterator[None]:
    """uvicorn stops on a signal and raises it again. Ignoring that lets the rest of the process stop in order."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: None) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
    if with_worker:
        click.echo("Stopping: running tasks finish or are requeued. Press Ctrl-C again to stop at once.", err=True)


def _close(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def _database(stack: ExitStack, target: str | None, app: App | None, *, with_heat: bool) -> tuple[str, Database]:
    """The database that is shown; where it is served too, the engine counts its keys and partitions."""
    if target is None and app is not None:
        return app.store.db.name, app.store.db
    place = target or databases.only_database_file(DEFAULT_FILE)
    if app is not None and not _is_same_database(place, app.store.db.name):
        click.echo(f"The worker runs the jobs of {app.store.db.name}; the dashboard shows {place}.", err=True)
    from penstock.engine.settings import Settings

    settings = Settings(heat=True) if with_heat and databases.is_file_target(place) else None
    return place, stack.enter_context(databases.open_database(place, "made", settings=settings))


def _is_same_database(one: str, other: str) -> bool:
    return one == other or ("://" not in one + other and Path(one).resolve() == Path(other).resolve())


def _files(place: str, files_place: str | None) -> Files | None:
    if files_place is not None:
        return open_files(files_place)
    return None if "://" in place or place == MEMORY else open_files(f"{place}.files")


@contextmanager
def _endpoint(db: Database, port: int) -> Iterator[str]:
    if not db.capabilities.has_engine:
        raise click.UsageError(f"--serve needs a database file; {db.name} is served already.")
    with running_server(db.engine, port=port) as server:
        yield server.url


@contextmanager
def _running_worker(app: App, metrics: WorkerMetrics | None) -> Iterator[None]:
    """A worker in a thread, for the length of a block; then its tasks finish or are requeued."""
    worker = Worker(app, metrics=metrics)
    thread = threading.Thread(target=_run, args=(worker,), name="penstock-worker", daemon=True)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(_STOP_SECONDS)


def _run(worker: Worker) -> None:
    with suppress(DatabaseLost):  # the watcher of the file stops the whole process, and says why
        worker.run()


def _announce(address: str, host: str, place: str, endpoint: str | None, token: str | None, as_json: bool) -> None:
    urls = [one if token is None else f"{one}/login?token={token}" for one in _addresses(address, host)]
    if as_json:
        import orjson

        form = {"url": urls[0], "urls": urls, "db": place, "endpoint": endpoint, "pid": os.getpid()}
        click.echo(orjson.dumps(form).decode())
    else:
        also = "" if endpoint is None else f"; DynamoDB at {endpoint}"
        click.echo(f"Penstock's dashboard is at {urls[0]} ({place}{also}; stop with Ctrl+C)")
        for url in urls[1:]:
            click.echo(f"  from other machines: {url}")
    sys.stdout.flush()
    if any(not is_loopback(urlsplit(url).hostname or "") for url in urls):
        click.echo(
            "The token and all data travel over plain HTTP: anybody on the network can read them. "
            "Put a proxy with TLS before it, or use an SSH tunnel.",
            err=True,
        )


def _addresses(address: str, host: str) -> list[str]:
    """The URLs that work: of a server on all addresses, those of this machine and of its network."""
    parts = urlsplit(address)
    if host not in ("0.0.0.0", "::"):  # noqa: S104 - what --host may say
        return [address]
    others = dict.fromkeys([*_network_addresses(), socket.gethostname()])
    return [address, *(f"{parts.scheme}://{other}:{parts.port}" for other in others)]


def _network_addresses() -> list[str]:
    """This machine's address in its network. Nothing is sent: a datagram socket only chooses its way."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as chosen, suppress(OSError):
        chosen.connect(("192.0.2.1", 9))
        return [str(chosen.getsockname()[0])]
    return []
