"""The queue of Delphi's jobs, and the poller that runs them (S3.7, S3.13).

A poller is a worker of `penstock.jobs` on Delphi_JobQueue: locks are leases that are renewed while a child runs, every
write is fenced by the lock's token, a lock that has run out is taken over. A job is a process, started with
`DELPHI_JOB_ID` and `DELPHI_REPORT_ID`; when it is tried again it has the same id, so that the pipeline goes on where it
stopped.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from penstock.jobs.app import App
from penstock.jobs.context import JobContext
from penstock.jobs.model.job import DEFAULT_PRIORITY, BadJob, Job, NewJob
from penstock.jobs.store.payloads import INLINE_BYTES, to_json
from penstock.jobs.worker.worker import Worker
from penstock.retry import RetryPolicy
from penstock.systems.delphi.pipeline import DEFAULT_SEED, JOB_ID_VARIABLE, REPORT_ID_VARIABLE
from penstock.systems.delphi.queue.child_process import ChildFailed, ChildFailedForGood, run_child
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
        """A new job, PENDING; or the one that has this `job_id`. `options`: seed, embedder, clusterer."""
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
            burst=burst,
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
        command += [f"--{name}={config[name]}" for name in ("embedder", "clusterer") if name in config]
        command += [] if self._files is None else ["--files", self._files]
        # The child of a poller that was killed may still be at work: it is waited for, never run beside.
        command += ["--wait", str(config.get("timeout_seconds", DEFAULT_TIMEOUT_SECONDS))]
        return [*command, "--", str(config["comments"])]  # a job's text is a file's name, and never an option


def child_environment(job_id: str, config: Config) -> dict[str, str]:
    """What a child gets beside its command: the id of the job, and of the report; the conversation's unless given."""
    report = config.get("report_id") or config.get("conversation_id", "")
    return {**os.environ, JOB_ID_VARIABLE: job_id, REPORT_ID_VARIABLE: str(report)}
