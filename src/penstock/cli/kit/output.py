"""What commands print.

A terminal obeys control characters: they move its cursor, hide what follows, change its title, write to the clipboard.
Names, errors and log lines come from jobs and items, so from whoever could write one.

1. Of control characters, only line ends and tabs get through, the colours that `click.style` makes, and a CR at either
   end of what is written, which our own progress lines have. All others are written as JSON writes them: `\\u001b`.
2. Nor do characters get through that turn the direction of writing, or that no encoding has.
3. Bytes (`penstock files get`) are left alone: they were asked for.
4. Progress is shown on a terminal only, never with --json, and not where TERM is dumb.
5. A reader that has left (`| head -1`) stops no work: what is printed from then on is dropped. A command that does
   nothing but print asks `has_reader`, and stops by itself.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pathlib import Path

# ── safe text ────────────────────────────────────────────────────────────────────────────────────

_HARMFUL = re.compile(
    r"\x1b\[(?:[012]|3[0-7]|9[0-7])m"  # let through: see `_keep_colour`
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_LINE_ENDS = re.compile(r"[\n\u2028\u2029]")


def printable(text: str) -> str:
    """The text without anything that a terminal would obey (1, 2)."""
    return _HARMFUL.sub(_keep_colour, text)


def one_line(text: str) -> str:
    """The same for a text that is part of a line: it ends no line, and begins none of its own."""
    return _LINE_ENDS.sub(_escape, printable(text))


def _keep_colour(match: re.Match[str]) -> str:
    return match[0] if len(match[0]) > 1 else _escape(match)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


class OutputFailed(PenstockError, OSError):
    """What a command prints cannot be written: the disk is full, say."""


class SafeStream:
    """A text stream whose writes are `printable`, and dropped when its reader has left (5). Everything else is the
    stream's own. Raises OutputFailed.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.has_reader = True

    def write(self, text: str) -> int:
        inner = text.strip("\r")
        if inner:
            before, after = text.startswith("\r"), text.endswith("\r")
            text = "\r" * before + printable(inner) + "\r" * after
        if self.has_reader:
            try:
                with _told_failures():
                    return self._stream.write(text)
            except BrokenPipeError:
                self._drop_from_now_on()
        return len(text)

    def flush(self) -> None:
        if self.has_reader:
            try:
                with _told_failures():
                    self._stream.flush()
            except BrokenPipeError:
                self._drop_from_now_on()

    def _drop_from_now_on(self) -> None:
        """The stream keeps what it could not write, and Python writes that when the process ends: to nowhere, then."""
        self.has_reader = False
        with suppress(OSError, ValueError):  # a stream without a file of its own
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _told_failures() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(f"The output cannot be written: {error.strerror or error}.") from error


def discard_output() -> None:
    """Gives up what stdout has not written: Python would try again when it ends, and end with a code of its own."""
    with suppress(OSError, ValueError, AttributeError):
        place = os.open(os.devnull, os.O_WRONLY)
        os.dup2(place, sys.stdout.fileno())
        os.close(place)
        sys.stdout.flush()


@contextmanager
def safe_output() -> Iterator[None]:
    """Both streams, for the length of a block."""
    before = sys.stdout, sys.stderr
    if not isinstance(sys.stdout, SafeStream):
        # A process that was started without a stream (`>&-`) has None.
        sys.stdout, sys.stderr = (stream and cast(TextIO, SafeStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def has_reader() -> bool:
    """Whether somebody may still read stdout, as far as writing to it has told (5)."""
    return not isinstance(sys.stdout, SafeStream) or sys.stdout.has_reader


def wants_colour() -> bool:
    """False if NO_COLOR is set to anything, or the terminal is a dumb one."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


# ── values ───────────────────────────────────────────────────────────────────────────────────────


def print_json(form: Any) -> None:
    import orjson  # here and below by the first call: a help page prints none

    click.echo(orjson.dumps(form, option=orjson.OPT_INDENT_2).decode())


def print_result(form: Any, text: str, *, as_json: bool) -> None:
    """What a command has done: as JSON with --json, else as text for people."""
    if as_json:
        print_json(form)
    else:
        click.echo(text)


def plain(value: Any) -> Any:
    """An item's value as orjson takes it: a Decimal is the number that its text says, a set a sorted list, bytes are
    hex. No digit is lost.
    """
    from decimal import Decimal

    match value:
        case dict():
            return {name: plain(one) for name, one in value.items()}
        case list():
            return [plain(one) for one in value]
        case set():
            return [plain(one) for one in sorted(value)]
        case Decimal():
            import orjson

            return orjson.Fragment(str(value))
        case bytes():
            return value.hex()
        case _:
            return value


def size_text(size: float) -> str:
    """`5 bytes`, `1.5 MB`."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1000
    raise AssertionError("the last unit returns")


def count_text(number: int, noun: str = "file") -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def write_text(text: str, out: Path | None, *, as_json: bool) -> None:
    """To a file, replaced as a whole, or to stdout. What was written to a file is told, with --json on stdout."""
    if out is None:
        click.echo(text, nl=False)
        return
    from penstock.tables.formats.export import write_whole

    write_whole(out, text)
    if as_json:
        print_json({"written": str(out), "bytes": len(text.encode())})
    else:
        click.echo(f"Written: {out}", err=True)


# ── progress ─────────────────────────────────────────────────────────────────────────────────────

_EVERY_SECONDS = 0.2
_QUIET_SECONDS = 1.0  # copies of files that take less show no progress


def shows_progress(*, quiet: bool = False) -> bool:
    """Whether a line on stderr can be rewritten (4)."""
    return sys.stderr.isatty() and not quiet and os.environ.get("TERM") != "dumb"


class ProgressLine:
    """One line on the terminal, which is rewritten; nothing without a terminal."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.shown = shows_progress(quiet=quiet)
        self._began_at = time.monotonic()
        self._written_at = 0.0
        self._length = 0

    def tell(self, text: str) -> None:
        """The text, cut where a narrow terminal ends."""
        if self.shown:
            import shutil

            text = text[: shutil.get_terminal_size().columns - 1]
            click.echo("\r" + text.ljust(self._length), nl=False, err=True)
            self._length = len(text)

    def items(self, done: int, total: int) -> None:
        """`120,000 of 200,000 items, 31,000 a second`."""
        if self.is_due():
            self.tell(f"{done:,} of {total:,} items, {done / self._seconds():,.0f} a second")

    def end(self) -> None:
        if self._length:
            self.tell("")
            click.echo("\r", nl=False, err=True)
            self._length = 0

    def is_due(self) -> bool:
        """Whether the line is old enough to be written again."""
        now = time.monotonic()
        if not self.shown or now - self._written_at < _EVERY_SECONDS:
            return False
        self._written_at = now
        return True

    def _seconds(self) -> float:
        return max(time.monotonic() - self._began_at, 0.001)


class ByteLine(ProgressLine):
    """`12.3 MB of 40.0 MB, 30.1 MB a second`; nothing for the first second of work."""

    def __init__(self, total: int | None = None, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._written_at = self._began_at + _QUIET_SECONDS - _EVERY_SECONDS
        self._total = total
        self._done = 0

    def add(self, size: int) -> None:
        self._done += size
        if self.is_due():
            of = f" of {size_text(self._total)}" if self._total is not None else ""
            self.tell(f"{size_text(self._done)}{of}, {size_text(self._done / self._seconds())} a second")

    def restart(self) -> None:
        self._done = 0
