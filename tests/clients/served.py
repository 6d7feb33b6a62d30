"""`penstock serve` as a process of its own, as a user starts it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Any will do: the server looks at them only when told to.
REGION = "us-east-1"
ACCESS_KEY = "AKIDCLIENTS"
SECRET_KEY = "secret"

PENSTOCK = Path(sys.executable).with_name("penstock")
_STOP_SECONDS = 10


@contextmanager
def serving(db: Path, *options: str) -> Iterator[str]:
    """The URL of a server of the file `db` on a free port; at the end SIGTERM must end it, with exit code 0."""
    command = [PENSTOCK, "serve", "--db", db, "--port", "0", "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready, f"penstock serve ended with {process.wait(_STOP_SECONDS)} before it was ready"
        yield json.loads(ready)["url"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(_STOP_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
