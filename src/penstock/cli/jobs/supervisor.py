"""Several worker processes under one: those that die are started again, and signals reach them all."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from types import FrameType
from typing import Final

import click

_LOOK_SECONDS: Final = 0.1
_RESTART_SECONDS: Final = 0.5
"""Between two starts of one that dies at once: a broken app must not burn the machine."""
_ENDED: Final = (0, -signal.SIGINT, -signal.SIGTERM)


def supervise(arguments: list[str], processes: int, grace_seconds: float) -> int:
    """Runs `penstock` with these arguments in so many processes; 0 when all have ended well."""
    command = [sys.executable, "-m", "penstock", *_without_processes(arguments)]
    stopping: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.append(number)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    children: list[subprocess.Popen[bytes] | None] = [_start(command) for _ in range(processes)]
    try:
        while any(child is not None for child in children) and not stopping:
            time.sleep(_LOOK_SECONDS)
            children = [_looked_after(child, command) for child in children]
        return _end([child for child in children if child is not None], grace_seconds)
    finally:
        for child in children:
            if child is not None and child.poll() is None:
                child.kill()
                child.wait()


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    # A group of its own: Ctrl-C reaches this process, which then tells its children once.
    return subprocess.Popen(command, start_new_session=True)  # noqa: S603


def _looked_after(child: subprocess.Popen[bytes] | None, command: list[str]) -> subprocess.Popen[bytes] | None:
    if child is None or child.poll() is None:
        return child
    if child.returncode in _ENDED:
        return None
    if child.returncode == click.UsageError.exit_code:
        raise SystemExit(child.returncode)
    click.echo(f"A worker process has ended with {child.returncode}; another one is started.", err=True)
    time.sleep(_RESTART_SECONDS)
    return _start(command)


def _end(children: list[subprocess.Popen[bytes]], grace_seconds: float) -> int:
    for child in children:
        if child.poll() is None:
            child.terminate()
    end = time.monotonic() + grace_seconds + 5
    for child in children:
        try:
            child.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    return 0 if all(child.returncode in _ENDED for child in children) else 1


def _without_processes(arguments: list[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument == "--processes":
            skip = True
        elif not argument.startswith("--processes="):
            kept.append(argument)
    return kept
