"""The processes of `penstock worker --processes` and `--reload`: started, started again, stopped together.

1. A process that dies is started again: after half a second, then later and later while processes go on dying young,
   so that a broken app does not keep the machine busy. One that had begun to work was killed by a job, or from outside:
   the next one starts soon, because other jobs wait. One that has ended by itself is not started again.
2. One that has ended by itself says so; its exit code alone proves nothing, because a task can call `os._exit`.
3. They stop when this process ends, even if it is killed: the other end of a pipe is closed then.
4. A change of a source file stops them calmly, and then starts them again. A worker that could not start, because the
   program is broken, is started again after the next change.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final

import click

from penstock.cli.kit.exit_codes import LEASE_LOST, WORK_FAILED
from penstock.errors import PenstockError
from penstock.retry import Backoff

_LOOK_SECONDS: Final = 0.1
_RESTART: Final = Backoff(0.5, 2.0, 30.0)
_LONGEST_AFTER_WORK_SECONDS: Final = 2.0
"""Between a process that had begun to work and the next one (1): jobs that kill are out of the way after three."""
_GROWN_UP_SECONDS: Final = 60.0
"""A process that has lived for so long did not die young: the pauses begin again (1)."""
_KILL_SECONDS: Final = 5.0
_PIPE_BYTES: Final = 65_536
_SCAN_SECONDS: Final = 1.0
_SETTLE_SECONDS: Final = 0.2
"""A change is over when nothing more has changed for so long: a checkout writes many files."""
_MOST_SOURCES: Final = 20_000
"""Each scan looks at every one of them."""
_ON_PURPOSE: Final = (signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
"""Signals by which somebody ends a process. SIGKILL may be the kernel's, when memory is short: that is a crash."""
_ENDED: Final = (0, WORK_FAILED, LEASE_LOST)
"""Exit codes of a worker that ended by itself, where it cannot say so (Windows). With any other code it has died."""
_OPTIONS: Final = ("--processes", "--reload")
"""The supervisor's own, which its processes are not given; the first has a value."""


class SourceFiles:
    """The Python files below a folder. Hidden folders, virtual environments and `node_modules` are left out."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = self._scan()

    def changed(self) -> str:
        """One that has changed since the last call, or was added or removed; "" if none was."""
        now = self._scan()
        differing = sorted(name for name, _ in now.items() ^ self._seen.items())
        self._seen = now
        return os.path.relpath(differing[0], self._folder) if differing else ""

    def _scan(self) -> dict[str, tuple[int, int]]:
        """Their times and sizes."""
        found: dict[str, tuple[int, int]] = {}
        for folder, below, files in os.walk(self._folder):
            if "pyvenv.cfg" in files:
                below.clear()
                continue
            below[:] = [name for name in below if not name.startswith((".", "__pycache__", "node_modules"))]
            for name in files:
                if name.endswith(".py"):
                    with suppress(OSError):  # removed at this moment
                        path = Path(folder, name)
                        status = path.stat()
                        found[str(path)] = status.st_mtime_ns, status.st_size
            if len(found) > _MOST_SOURCES:
                raise click.UsageError(
                    f"There are more than {_MOST_SOURCES:,} Python files below {self._folder}: "
                    "start --reload in the folder of your program."
                )
        return found


class Supervisor:
    """Runs `penstock` with the same arguments in several processes, and again when `sources` change."""

    def __init__(
        self,
        arguments: list[str],
        processes: int,
        grace_seconds: float,
        on_killed: Callable[[int, str], None] = lambda pid, how: None,
        sources: SourceFiles | None = None,
        metrics_port: int | None = None,
    ) -> None:
        """`on_killed` is told of a process that was killed on purpose, and how: that is no crash of its jobs.

        With a `metrics_port`, the first process serves its metrics there, and each other one on the next; one that is
        started again has the port of the one before.
        """
        # Nothing is ever written to it. The kernel closes the end that only this process has, when it ends (3).
        ends: tuple[int, ...] = os.pipe() if os.name == "posix" else ()
        # To this one, a process writes its pid: after a + when it begins to work (1), alone as the last thing (2).
        reports: tuple[int, ...] = os.pipe() if os.name == "posix" else ()
        self._inherited = (*ends[:1], *reports[1:])
        self._reports = reports[0] if reports else None
        if self._reports is not None:
            os.set_blocking(self._reports, False)
        told = ["--supervisor", *map(str, self._inherited)] if self._inherited else []
        self._command = [sys.executable, "-m", "penstock", *without_own_options(arguments), *told]
        self._processes = processes
        self._grace_seconds = grace_seconds
        self._children: list[subprocess.Popen[bytes]] = []
        self._metrics_port = metrics_port
        self._places: dict[int, int] = {}
        """Which of the processes each is, by its pid."""
        self._born_at: dict[int, float] = {}
        self._due_at: list[float] = []
        """When those that have died are to be started again."""
        self._died_young = 0
        self._codes: list[int] = []
        self._on_killed = on_killed
        self._sources = sources
        self._scanned_at = 0.0
        self._stopping = False
        self._said: set[int] = set()
        self._working: set[int] = set()
        """Processes that have begun to work, by their pids (1)."""

    def run(self) -> int:
        """Runs until they have ended (burst) or a signal comes. Returns the highest of their exit codes."""
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGTERM, self._stop)
        self._start_all()
        try:
            while self._goes_on():
                time.sleep(_LOOK_SECONDS)
                self._replace_dead(time.monotonic())
                self._reload_changed()
        finally:
            self._end()
        return max(self._codes, default=0)

    def _goes_on(self) -> bool:
        return not self._stopping and bool(self._children or self._due_at or self._sources)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """The first signal stops them calmly; a second one is passed on, and ends them at once."""
        if self._stopping:
            for child in self._children:
                child.terminate()
        self._stopping = True

    def _start_all(self) -> None:
        self._due_at = []
        self._children = [self._start() for _ in range(self._processes)]

    def _start(self) -> subprocess.Popen[bytes]:
        # A group of its own: Ctrl-C reaches this process, which then tells its children once.
        place = next(number for number in range(self._processes) if number not in self._places.values())
        port = self._metrics_port
        own = [] if not port else ["--metrics-port", str(port + place)]  # of two, the last one counts
        child = subprocess.Popen([*self._command, *own], start_new_session=True, pass_fds=self._inherited)  # noqa: S603
        self._places[child.pid] = place
        self._born_at[child.pid] = time.monotonic()
        return child

    def _replace_dead(self, now: float) -> None:
        ended = [child for child in self._children if child.poll() is not None]
        for child in ended:
            self._children.remove(child)
            self._places.pop(child.pid, None)
            age = now - self._born_at.pop(child.pid, 0.0)
            by_itself = self._ended_by_itself(child)
            had_worked = child.pid in self._working
            self._working.discard(child.pid)
            if by_itself:
                self._codes.append(max(child.returncode, 0))
                continue
            if -child.returncode in _ON_PURPOSE:
                self._report_killed(child.pid, f"ended by {signal.Signals(-child.returncode).name}")
            self._died_young = 0 if age >= _GROWN_UP_SECONDS else self._died_young + 1
            pause = _RESTART.bound(max(1, self._died_young))
            if had_worked:
                pause = min(pause, _LONGEST_AFTER_WORK_SECONDS)
            self._due_at.append(now + pause)
            click.echo(
                f"A worker process has ended with {child.returncode}; another one is started in {pause:g} s.", err=True
            )
        if ended and self._sources is not None and not self._children and not self._due_at:
            click.echo("No worker is running. It is started again when a Python file changes.", err=True)
        due = [at for at in self._due_at if at <= now]
        self._due_at = [at for at in self._due_at if at > now]
        self._children += [self._start() for _ in due]

    def _reload_changed(self) -> None:
        """Starts them all again if a source file has changed (4)."""
        if self._sources is None or self._stopping or time.monotonic() - self._scanned_at < _SCAN_SECONDS:
            return
        changed = self._sources.changed()
        self._scanned_at = time.monotonic()
        if not changed:
            return
        click.echo(f"{changed} has changed: the worker stops calmly, and starts again.", err=True)
        time.sleep(_SETTLE_SECONDS)
        while self._sources.changed():
            time.sleep(_SETTLE_SECONDS)
        self._end()
        self._codes.clear()
        self._died_young = 0
        if not self._stopping:
            self._start_all()

    def _ended_by_itself(self, child: subprocess.Popen[bytes]) -> bool:
        """Whether it has said so, as the last thing that it did (2)."""
        if self._reports is None:
            return child.returncode in _ENDED
        with suppress(BlockingIOError):
            for word in os.read(self._reports, _PIPE_BYTES).split():
                (self._working if word.startswith(b"+") else self._said).add(int(word))
        if child.pid not in self._said:
            return False
        self._said.remove(child.pid)  # another process may have this number later
        return True

    def _end(self) -> None:
        for child in self._children:
            child.terminate()
        end = time.monotonic() + self._grace_seconds + _KILL_SECONDS
        for child in self._children:
            try:
                child.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._report_killed(child.pid, "killed by its supervisor, because it did not stop in time")
                child.kill()
                child.wait()
            self._codes.append(max(child.returncode, 0))
        self._children = []
        self._places.clear()

    def _report_killed(self, pid: int, how: str) -> None:
        try:
            self._on_killed(pid, how)
        except PenstockError as error:  # its jobs are suspects then, and run alone
            click.echo(f"How a worker process was killed could not be stored: {error}", err=True)


def without_own_options(arguments: list[str]) -> list[str]:
    """The arguments of each process."""
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in _OPTIONS:
            skip = argument == _OPTIONS[0]
        elif not argument.startswith(f"{_OPTIONS[0]}="):
            kept.append(argument)
    return kept
