"""Several worker processes under one: those that die are started again, and signals reach them all."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from types import FrameType
from typing import Final

import click

from penstock.cli.kit.exit_codes import LEASE_LOST, WORK_FAILED

_LOOK_SECONDS: Final = 0.1
_RESTART_SECONDS: Final = 0.5
"""Between two starts of one that dies at once: a broken app must not burn the machine."""
_KILL_SECONDS: Final = 5.0
_ENDED: Final = (0, WORK_FAILED, LEASE_LOST)
"""How a worker ends by itself; whatever else it ends with, it has died."""


class Supervisor:
    """Runs `penstock` with the same arguments in several processes."""

    def __init__(self, arguments: list[str], processes: int, grace_seconds: float) -> None:
        self._command = [sys.executable, "-m", "penstock", *_without_processes(arguments)]
        self._processes = processes
        self._grace_seconds = grace_seconds
        self._children: list[subprocess.Popen[bytes]] = []
        self._codes: list[int] = []
        self._stopping = False

    def run(self) -> int:
        """Until they have ended by themselves (burst), or a signal has come; the highest of their exit codes."""
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGTERM, self._stop)
        self._children = [self._start() for _ in range(self._processes)]
        try:
            while self._children and not self._stopping:
                time.sleep(_LOOK_SECONDS)
                self._look()
        finally:
            self._end()
        return max(self._codes, default=0)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _start(self) -> subprocess.Popen[bytes]:
        # A group of its own: Ctrl-C reaches this process, which then tells its children once.
        return subprocess.Popen(self._command, start_new_session=True)  # noqa: S603

    def _look(self) -> None:
        """Takes note of those that have ended, and replaces those that have died."""
        for child in [child for child in self._children if child.poll() is not None]:
            self._children.remove(child)
            if child.returncode in _ENDED:
                self._codes.append(child.returncode)
            elif not self._stopping:
                click.echo(f"A worker process has ended with {child.returncode}; another one is started.", err=True)
                time.sleep(_RESTART_SECONDS)
                self._children.append(self._start())

    def _end(self) -> None:
        for child in self._children:
            child.terminate()
        end = time.monotonic() + self._grace_seconds + _KILL_SECONDS
        for child in self._children:
            try:
                child.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            self._codes.append(max(child.returncode, 0))


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
