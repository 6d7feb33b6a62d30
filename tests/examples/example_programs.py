"""The programs of examples/, run as their README says, in a copy of their folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE_SECONDS = 60


def copied(name: str, folder: Path) -> Path:
    """A copy of the example: a run leaves its files there."""
    return shutil.copytree(EXAMPLES / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.db*"))


def environment(**more: str) -> dict[str, str]:
    """That of a new user, and `more`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "DJANGO_"))}
    return {**kept, **more}


def run(folder: Path, *words: str, **variables: str) -> str:
    """What a Python command prints; it must succeed."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def started(folder: Path, *words: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python command that runs meanwhile, and is stopped at the end."""
    process = subprocess.Popen([sys.executable, *words], cwd=folder, env=environment(**variables))
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except URLError:
        return False
