"""A job's own process: watched, its lines kept, and ended with everything that it has started.

1. The child has a process group of its own. Whatever ends the job (its time limit, a cancellation, a lost lock, a
   poller that stops) ends the whole group: first it is asked, then it is killed.
2. Each line that it prints is a numbered entry of the job's log, in order; none overwrites another.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Final

from penstock.errors import PenstockError
from penstock.jobs.context import JobContext

_LOOK_SECONDS: Final = 0.25
_GRACE_SECONDS: Final = 3.0
_MOST_LINES: Final = 10_000
"""Of one attempt: what is printed after that is counted, and not kept."""
_LINE_CHARACTERS: Final = 2_000
_SHOWN: Final = 5


class ChildFailed(PenstockError):
    """The process of a job ended with an error, or was ended at its time limit; another attempt may follow."""


class ChildFailedForGood(ChildFailed):
    """The same, and no retry is left."""


def run_child(ctx: JobContext, command: Sequence[str], environment: Mapping[str, str], timeout_seconds: float) -> int:
    """Runs it to its end; the number of lines it printed. Raises ChildFailed, and whatever `run` raises."""
    process = subprocess.Popen(  # noqa: S603 (the command is ours, and no shell reads it)
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        encoding="utf-8",
        errors="backslashreplace",
        start_new_session=True,
    )
    try:
        return _watched(ctx, process, timeout_seconds)
    finally:
        end_group(process)


def _watched(ctx: JobContext, process: subprocess.Popen[str], timeout_seconds: float) -> int:
    deadline = time.monotonic() + timeout_seconds
    lines: queue.Queue[str | None] = queue.Queue(maxsize=1_000)
    threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
    count = 0
    last: list[str] = []
    while True:
        if time.monotonic() >= deadline:
            raise ChildFailed(f"it took longer than its time limit of {timeout_seconds:g} s, and was ended")
        line = _next(lines)
        if line is None:
            break
        if not line:
            ctx.stop_if_asked()
            if ctx.cancelled:
                ctx.log("ended: the job was cancelled, or is another's now")  # raises what it is
            continue
        count += 1
        last = [*last[1 - _SHOWN :], line]
        if count <= _MOST_LINES:
            ctx.log(line)
    return _ended(ctx, process, count, last, deadline)


def _ended(ctx: JobContext, process: subprocess.Popen[str], count: int, last: list[str], deadline: float) -> int:
    """Its output is closed; it ends now, or at its time limit."""
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise ChildFailed("it closed its output and did not end before its time limit") from None
    if count > _MOST_LINES:
        ctx.log(f"{count - _MOST_LINES:,} more lines were not kept")
    if code != 0:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise ChildFailed(f"its process {how}" + (": " + " | ".join(last) if last else ""))
    return count


def _next(lines: queue.Queue[str | None]) -> str | None:
    """The next line; empty if there was none for a moment, None at the end."""
    try:
        return lines.get(timeout=_LOOK_SECONDS)
    except queue.Empty:
        return ""


def _read(stream: IO[str] | None, lines: queue.Queue[str | None]) -> None:
    assert stream is not None
    with stream:
        for line in stream:
            text = line.rstrip()[:_LINE_CHARACTERS]
            if text:
                lines.put(text)
    lines.put(None)


def end_group(process: subprocess.Popen[str]) -> None:
    """Ends the child and all that it has started (1)."""
    _signal(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_SECONDS)
    # Also where the child itself has gone: what it started may have stayed.
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):  # the group is gone
        os.killpg(process.pid, number)
