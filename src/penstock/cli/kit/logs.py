"""How a command writes its log to stderr: a line for each message, or a line of JSON."""

from __future__ import annotations

import logging
import sys
from typing import Any

import orjson

from penstock.cli.kit.output import one_line
from penstock.clock import utc_text


class _OneLineFormatter(logging.Formatter):
    """A message with a line end in it makes no message of its own. A traceback, which follows one, keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        job_id = getattr(record, "job_id", "")  # a JobLogFilter has added it
        about = f"{job_id}: " if job_id and job_id not in record.message else ""
        record.message = one_line(about + record.message)
        return super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """A line of JSON for each record."""

    def format(self, record: logging.LogRecord) -> str:
        form: dict[str, Any] = {
            "at": utc_text(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in ("job_id", "task", "attempt", "outcome", "seconds"):
            value = getattr(record, name, None)
            if value not in (None, "", 0):
                form[name] = value
        if record.exc_info and record.exc_info[0] is not None:
            form["error"] = {"kind": record.exc_info[0].__name__, "trace": self.formatException(record.exc_info)}
        return orjson.dumps(form, default=str).decode()


def log_as_json() -> None:
    """Every handler that writes to a terminal's streams writes JSON from now on; those for files stay as they are."""
    log_warnings()
    others = [one for one in list(logging.root.manager.loggerDict.values()) if isinstance(one, logging.Logger)]
    for logger in (logging.root, *others):
        for handler in logger.handlers:
            if isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler):
                handler.setFormatter(JsonFormatter())


def log_warnings() -> None:
    """Warnings go to stderr, unless the user's own code has said where: so it is called after that is loaded.

    Where it has said so for some loggers only, this is for ours.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLineFormatter("%(levelname)s %(message)s"))
    ours = logging.getLogger("penstock")
    if ours.hasHandlers():
        return
    others = list(logging.root.manager.loggerDict.values())
    is_untouched = not any(isinstance(one, logging.Logger) and one.handlers for one in others)
    (logging.root if is_untouched else ours).addHandler(handler)
