"""What the commands on files share: the home, questions, a line of progress, and how they end when interrupted."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

import click

from penstock.files import Files, HomeMissing, open_files
from penstock.files.folder import FolderFiles

home_argument = click.argument("home", metavar="HOME")

_QUIET_SECONDS = 1.0  # what takes less shows no progress
_EVERY_SECONDS = 0.2
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def opened(home: str) -> Files:
    """The home, for reading: a folder that is not there has nothing, and is more likely misspelt."""
    files = open_files(home)
    if isinstance(files, FolderFiles) and not Path(files.where).is_dir():
        raise HomeMissing(files.where, "there is no such folder", "Give the folder that files were saved in")
    return files


class Age(click.ParamType[float]):
    """`90`, `15m`, `24h`, `7d`: seconds."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"([0-9]{1,9})([smhd]?)", str(value))
        if found is None:
            self.fail(f"{value!r} is no age: write 90 (seconds), 15m, 24h or 7d", param, ctx)
        return float(int(found.group(1)) * _UNITS[found.group(2)])


def size_text(size: float) -> str:
    """`5 bytes`, `1.5 MB`."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1000
    raise AssertionError("the last unit returns")


def count_text(number: int, noun: str = "file") -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class ByteLine:
    """One line on the terminal: `12.3 MB of 40.0 MB, 30.1 MB a second`; none for the first second of work."""

    def __init__(self, total: int | None = None, *, quiet: bool = False) -> None:
        self._total = total
        self._shown = sys.stderr.isatty() and not quiet
        self._began_at = time.monotonic()
        self._told_at = self._began_at + _QUIET_SECONDS - _EVERY_SECONDS
        self._done = self._length = 0

    def add(self, size: int) -> None:
        self._done += size
        now = time.monotonic()
        if self._shown and now - self._told_at >= _EVERY_SECONDS:
            self._told_at = now
            self._write(self._text(now))

    def restart(self) -> None:
        self._done = 0

    def end(self) -> None:
        if self._length:
            self._write("")
            click.echo("\r", nl=False, err=True)

    def _text(self, now: float) -> str:
        of = f" of {size_text(self._total)}" if self._total is not None else ""
        return f"{size_text(self._done)}{of}, {size_text(self._done / max(now - self._began_at, 0.001))} a second"

    def _write(self, text: str) -> None:
        click.echo("\r" + text.ljust(self._length), nl=False, err=True)
        self._length = len(text)
