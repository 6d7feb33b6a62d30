"""The log of commands that run for long: one line a message.

A name or an address with a line end in it makes no message of its own. A traceback, which follows one, keeps its lines.
"""

from __future__ import annotations

import logging
import sys

from penstock.cli.terminal import one_line


class _OneLine(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        record.message = one_line(record.message)
        return super().formatMessage(record)


def log_warnings() -> None:
    """What the rooms warn of goes to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
