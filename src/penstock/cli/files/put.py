"""`penstock files put`."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path, PurePath
from typing import BinaryIO

import click

from penstock.cli.files.options import home_argument
from penstock.cli.kit.options import json_option, resumable
from penstock.cli.kit.output import ByteLine, print_json, size_text
from penstock.files import open_files

_STDIN = "-"


@click.command("put")
@home_argument
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.argument("key", required=False)
@click.option("--type", "content_type", metavar="TYPE", help="Its content type; else by the key's ending.")
@json_option
def command(home: str, file: str, key: str | None, content_type: str | None, as_json: bool) -> None:
    """Save FILE in HOME under KEY; without a KEY, under its own name. `-` is stdin, and wants a KEY.

    \b
    Examples:
      penstock files put out/ report.xlsx jobs/j1/report.xlsx
      pg_dump shop | penstock files put s3://my-bucket/dumps - shop.sql

    Nothing is visible until all of it is saved; a file that was there before stays until then.
    """
    if key is None and file == _STDIN:
        raise click.UsageError("Give a KEY: what comes from stdin has no name.")
    key = key or PurePath(file).name
    line = ByteLine(None if file == _STDIN else Path(file).stat().st_size, quiet=as_json)
    with resumable(f"nothing of {key} was saved."), _opened(file) as stream:
        saved = open_files(home).save(key, Counted(stream, line), content_type=content_type)
    line.end()
    if as_json:
        print_json(saved.form())
    else:
        click.echo(f"{saved.key}: {size_text(saved.size)}, SHA-256 {saved.sha256}")


def _opened(file: str) -> AbstractContextManager[BinaryIO]:
    if file == _STDIN:
        # Unbuffered: a buffer that waits to be filled does not look whether Ctrl-C was pressed.
        return nullcontext(getattr(sys.stdin.buffer, "raw", sys.stdin.buffer))
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from error


class Counted:
    """A file that tells how much of it was read."""

    def __init__(self, file: BinaryIO, line: ByteLine) -> None:
        self._file = file
        self._line = line

    def read(self, size: int = -1, /) -> bytes:
        block = self._file.read(size)
        self._line.add(len(block))
        return block

    def seekable(self) -> bool:
        return self._file.seekable()

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, place: int) -> int:
        self._line.restart()
        return self._file.seek(place)
