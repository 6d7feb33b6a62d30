"""The queue of Delphi's jobs, and the poller that runs them (S3.7, S3.13).

A poller is a worker of `penstock.jobs` on Delphi_JobQueue: locks are leases that are renewed while a child runs, every
write is fenced by the lock's token, a lock that has run out is taken over. A job is a process, started with
`DELPHI_JOB_ID` and `DELPHI_REPORT_ID`; when it is tried again it has the same id, so that the pipeline goes on where it
stopped.

1. The child has a process group of its own. Whatever ends the job (its time limit, a cancellation, a lost lock, a
   poller that stops) ends the whole group: first it is asked, then it is killed.
2. Each line that it prints is a numbered entry of the job's log, in order; none overwrites another.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from penstock.errors import PenstockError
from penstock.jobs.app import App
from penstock.jobs.context import JobContext
from penstock.jobs.model.job import DEFAULT_PRIORITY, BadJob, Job, NewJob
from penstock.jobs.store.payloads import INLINE_BYTES, to_json
from penstock.jobs.worker.worker import Worker
from penstock.retry import RetryPolicy
from penstock.systems.delphi.pipeline import DEFAULT_SEED, JOB_ID_VARIABLE, REPORT_ID_VARIABLE
from penstock.systems.delphi.queue.layout import QueueLayout

FULL_PIPELINE: Final = "FULL_PIPELINE"
DEFAULT_TIMEOUT_SECONDS: Final = 3600.0
DEFAULT_RETRIES: Final = 3
DEFAULT_INTERVAL_SECONDS: Final = 5.0
_MOST_RETRIES: Final = 1_000_000
_LEASE_SECONDS: Final = 30.0

Config = Mapping[str, Any]
Command = Callable[[str, Config], list[str]]
"""From a job's id and its configuration to the command of its process."""


class JobQueue:
    """Delphi_JobQueue on one database."""

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        files: str | None = None,
        commands: Mapping[str, Command] | None = None,
        lease_seconds: float = _LEASE_SECONDS,
    ) -> None:
        self._url = os.fspath(url)
        self._files = files
        self.app = App(url, layout=QueueLayout(), files=files)
        self._commands = {FULL_PIPELINE: self._pipeline_command, **(commands or {})}
        for job_type in self._commands:
            retries = RetryPolicy(_MOST_RETRIES, on=(ChildFailed,), never_on=(ChildFailedForGood,))
            self.app.task(job_type, retries=retries, lease_seconds=lease_seconds)(self._task(job_type))

    def enqueue(
        self,
        comments: str | os.PathLike[str],
        *,
        conversation_id: str,
        report_id: str = "",
        job_type: str = FULL_PIPELINE,
        priority: int = DEFAULT_PRIORITY,
        retries: int = DEFAULT_RETRIES,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        job_id: str | None = None,
        **options: Any,
    ) -> Job:
        """A new job, PENDING; or the one that has this `job_id`. `options`: seed, embedder, clusterer, language."""
        config = {
            "conversation_id": conversation_id,
            "report_id": report_id or conversation_id,
            "comments": str(Path(comments).absolute()),
            "timeout_seconds": timeout_seconds,
            **options,
        }
        if len(to_json(config, "job_config").encode()) > INLINE_BYTES:
            raise BadJob(f"A job's configuration has at most {INLINE_BYTES // 1024} KB.")
        if not timeout_seconds > 0:
            raise BadJob(f"timeout_seconds is more than 0, not {timeout_seconds}.")
        new = NewJob(job_type, config, priority=priority, retries=retries, id=job_id)
        return self.app.store.create(new)[0]

    def poller(
        self,
        *,
        interval_seconds: float = DEFAULT_INTERVAL_SECONDS,
        max_workers: int = 1,
        burst: bool = False,
        grace_seconds: float = 5.0,
        on_end: Callable[[Job, str], None] = lambda job, how: None,
    ) -> Worker:
        """Looks for jobs every so often, and runs so many at once; `burst` ends it when there are none."""
        return Worker(
            self.app,
            concurrency=max_workers,
            idle_seconds=interval_seconds,
            until_empty=burst,
            grace_seconds=grace_seconds,
            on_end=on_end,
        )

    def close(self) -> None:
        self.app.close()

    def _task(self, job_type: str) -> Callable[..., dict[str, Any]]:
        def perform(ctx: JobContext, **config: Any) -> dict[str, Any]:
            command = self._commands[job_type](ctx.id, config)
            timeout = float(config.get("timeout_seconds", DEFAULT_TIMEOUT_SECONDS))
            try:
                lines = run_child(ctx, command, child_environment(ctx.id, config), timeout)
            except ChildFailed as failed:
                if ctx.job.failures >= ctx.job.retries:
                    raise ChildFailedForGood(str(failed)) from failed
                raise
            return {"lines": lines, "delphi_job_id": ctx.id}

        return perform

    def _pipeline_command(self, job_id: str, config: Config) -> list[str]:
        command = [sys.executable, "-m", "penstock", "delphi", "run", "--db", self._url]
        command += ["--conversation", str(config["conversation_id"]), "--seed", str(config.get("seed", DEFAULT_SEED))]
        command += [f"--{name}={config[name]}" for name in ("embedder", "clusterer", "language") if name in config]
        command += [] if self._files is None else ["--files", self._files]
        # The child of a poller that was killed may still be at work: it is waited for, never run beside.
        command += ["--wait", str(config.get("timeout_seconds", DEFAULT_TIMEOUT_SECONDS))]
        return [*command, "--", str(config["comments"])]  # a job's text is a file's name, and never an option


def child_environment(job_id: str, config: Config) -> dict[str, str]:
    """What a child gets beside its command: the id of the job, and of the report; the conversation's unless given."""
    report = config.get("report_id") or config.get("conversation_id", "")
    return {**os.environ, JOB_ID_VARIABLE: job_id, REPORT_ID_VARIABLE: str(report)}


# ── a job's process ────────────────────────────────────────────────────────────────────────────────

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
        return _watch(ctx, process, timeout_seconds)
    finally:
        end_group(process)


def _watch(ctx: JobContext, process: subprocess.Popen[str], timeout_seconds: float) -> int:
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
    return _await_exit(ctx, process, count, last, deadline)


def _await_exit(ctx: JobContext, process: subprocess.Popen[str], count: int, last: list[str], deadline: float) -> int:
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
