"""Which job a log record is about: `%(job_id)s`, `%(task)s` and `%(attempt)s` in a format.

1. A filter of a handler adds them, after `extra` has been: a record factory would refuse `extra={"task": …}` of the
   user's own. What a record has already is kept.
2. They follow the task into what it awaits and into `asyncio.to_thread`. A thread that a task starts by itself has them
   if it is given a copy of the context: `threading.Thread(target=contextvars.copy_context().run, args=(function,))`.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Final

from penstock.jobs.model.job import Job

CURRENT_JOB: Final[ContextVar[Job | None]] = ContextVar("penstock_job", default=None)


class JobLogFilter(logging.Filter):
    """Adds `job_id`, `task` and `attempt` to records; they are "" and 0 for what is logged outside of a task."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Lets every record pass."""
        job = CURRENT_JOB.get()
        added = ("", "", 0) if job is None else (job.id, job.task, job.attempt)
        for name, value in zip(("job_id", "task", "attempt"), added, strict=True):
            record.__dict__.setdefault(name, value)
        return True


def add_to_handlers() -> None:
    """Gives every handler that there is a JobLogFilter. One that is made later can be given one by its maker."""
    others = [one for one in list(logging.root.manager.loggerDict.values()) if isinstance(one, logging.Logger)]
    for logger in (logging.root, *others):
        for handler in logger.handlers:
            if not any(isinstance(one, JobLogFilter) for one in handler.filters):
                handler.addFilter(JobLogFilter())
