"""The `logging` records of a task, in its job's log: `@app.task(capture_logs="INFO")`.

1. A record writes nothing by itself: lines are gathered, and written as one entry with the next report, with the next
   renewal of the lease, and before the attempt ends. So a line is no write of the job's main record, and none is lost
   unless the process is killed; then those since the last renewal are.
2. An attempt keeps MOST_LINES of LINE_CHARACTERS each. The next line says that more are not kept.
3. Records of Penstock's own loggers are not captured: writing a line would make another.
4. Where the root logger would let no such record pass, its level is lowered; handlers that there are keep theirs, so
   that nothing more is printed than before.
5. A record is turned into text by code of the user's, which may log, raise, recurse or wait: so no lock is held
   meanwhile, what the same thread logs meanwhile is not captured, and an exception in it costs that one line.
"""

from __future__ import annotations

import logging
import threading
from contextvars import ContextVar
from typing import Any, Final

from penstock.clock import utc_text
from penstock.jobs.model.job import BadJob
from penstock.stored_text import shorten, storable

MOST_LINES: Final = 1_000
"""Of an attempt."""
MOST_ENTRIES: Final = 10_000
"""A job that has so many entries already keeps no more lines: it is requeued, or retried, for ever."""
LINE_CHARACTERS: Final = 2_000
TOGETHER: Final = 100
ENTRY_BYTES: Final = 200_000
"""Of the lines of an entry, of which there are at most TOGETHER: an item holds 400 KB."""

_LEVEL_CHARACTERS: Final = 50

CAPTURE: Final[ContextVar[LogCapture | None]] = ContextVar("penstock_log_capture", default=None)


def checked_level(level: str | int | None) -> int | None:
    """The number of a level, such as "INFO"."""
    if level is None:
        return None
    found = logging.getLevelNamesMapping().get(level) if isinstance(level, str) else level
    if isinstance(level, bool) or not isinstance(found, int) or found < 0:
        raise BadJob(f'capture_logs is a level such as "INFO" or logging.WARNING, not {level!r:.100}.')
    return found


class LogCapture:
    """The lines of one attempt that have not been written. Safe to share between threads."""

    def __init__(self, level: int, entries: int = 0) -> None:
        """`entries` are those that the job has already."""
        self.level = level
        self._left = MOST_LINES if entries < MOST_ENTRIES else 0
        self._lines: list[dict[str, str]] = []
        self._lock = threading.RLock()  # a finalizer or a signal's handler may log in the thread that holds it

    def __bool__(self) -> bool:
        """Whether there are lines to be written."""
        return bool(self._lines)

    def add(self, record: logging.LogRecord) -> None:
        with self._lock:
            if self._left < 0:
                return
            self._left -= 1
            is_last = self._left < 0
        if is_last:
            text = f"Further lines of this attempt are not kept: {MOST_LINES:,} are."
            line = _line(record, "WARNING", "penstock", text)
        else:
            line = _line(record, record.levelname, record.name, _text(record))
        with self._lock:
            self._lines.append(line)

    def next_entry(self) -> dict[str, Any]:
        """The message and the data of the entry that should be written next; `written` says that it was."""
        lines: list[dict[str, str]] = []
        size = 0
        with self._lock:
            for line in self._lines[:TOGETHER]:
                size += sum(len(part.encode()) for part in line.values())
                if lines and size > ENTRY_BYTES:
                    break
                lines.append(line)
        first = f"{lines[0]['level']} {lines[0]['message']}"
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        return {"message": first + more, "data": {"log": lines}}

    def written(self, entry: dict[str, Any]) -> None:
        with self._lock:
            del self._lines[: len(entry["data"]["log"])]


def _text(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    except Exception:  # the arguments do not fit the message: that ends no task
        text = str(record.msg)
    if record.exc_info and record.exc_info[0] is not None:
        text += "\n" + logging.Formatter().formatException(record.exc_info)
    return shorten(storable(text), LINE_CHARACTERS)


def _line(record: logging.LogRecord, level: str, logger: str, message: str) -> dict[str, str]:
    return {
        "at": utc_text(record.created),
        "level": storable(level)[:_LEVEL_CHARACTERS],
        "logger": storable(logger)[:200],
        "message": message,
    }


class _Thread(threading.local):
    is_capturing = False


_THREAD: Final = _Thread()


class CaptureHandler(logging.Handler):
    """Gives each record to the attempt in whose context it was made."""

    def handle(self, record: logging.LogRecord) -> bool:
        # Without the lock of other handlers: a capture has its own, and does not hold it while it makes the text (5).
        is_wanted = bool(self.filter(record))
        if is_wanted:
            self.emit(record)
        return is_wanted

    def emit(self, record: logging.LogRecord) -> None:
        capture = CAPTURE.get()
        if capture is None or record.levelno < capture.level or _THREAD.is_capturing:
            return
        if record.name == "penstock" or record.name.startswith("penstock."):
            return
        _THREAD.is_capturing = True
        try:
            capture.add(record)
        except Exception as error:  # what it is made of cannot be shown: that ends no task (5)
            note = f"A line of {record.name} cannot be kept: {type(error).__name__} while its text was made."
            made = {"levelno": logging.WARNING, "levelname": "WARNING", "name": "penstock", "msg": note}
            capture.add(logging.makeLogRecord(made))
        finally:
            _THREAD.is_capturing = False


_INSTALLING: Final = threading.Lock()


def install(level: int) -> None:
    """Sees to it that records of that level are captured (4)."""
    with _INSTALLING:
        root = logging.root
        if not root.handlers and logging.lastResort is not None:
            root.addHandler(logging.lastResort)  # what is printed without any handler is printed with this one
        if root.level > level:
            others = [one for one in list(root.manager.loggerDict.values()) if isinstance(one, logging.Logger)]
            for logger in (root, *(one for one in others if one.level == logging.NOTSET)):
                for handler in logger.handlers:
                    if not isinstance(handler, CaptureHandler):
                        handler.setLevel(max(handler.level, root.level))
            root.setLevel(level)
        if not any(isinstance(handler, CaptureHandler) for handler in root.handlers):
            root.addHandler(CaptureHandler())
