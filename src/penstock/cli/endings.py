"""How a command ends whose database file was deleted, replaced or overwritten."""

from __future__ import annotations

import os
import signal
import threading
import time

import click

from penstock.engine import Engine
from penstock.engine.storage.lost_file import LOOK_SECONDS
from penstock.errors import DatabaseLost, StorageError


def end_with_file(engine: Engine) -> None:
    """Has this process stop when the engine's file is lost, even if nobody calls.

    A server that can answer nothing is better gone: whoever supervises it starts it again, on the file that is there.
    """
    if not engine.store.memory:
        engine.when_lost(_stop_this_process)
        threading.Thread(target=_look, args=(engine,), name="penstock-watch", daemon=True).start()


def _stop_this_process(reason: str) -> None:
    """As SIGTERM does: what has begun is answered, with the error."""
    click.echo(f"Stopping: {reason}", err=True)
    os.kill(os.getpid(), signal.SIGTERM)


def _look(engine: Engine) -> None:
    while not engine.store.closed:
        time.sleep(LOOK_SECONDS)
        try:
            engine.store.watch.look()
        except DatabaseLost:
            return
        except StorageError:
            continue  # it cannot be looked at: calls that need it say so
