"""`penstock files get`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

import click

from penstock.cli.files.options import home_argument, opened
from penstock.cli.kit.options import json_option, resumable
from penstock.cli.kit.output import ByteLine, print_json, size_text
from penstock.files import Files
from penstock.files.content import BLOCK_BYTES


@click.command("get")
@home_argument
@click.argument("key")
@click.option("--out", metavar="FILE", help="Where to; - is stdout. Without it, the key's last part, here.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@json_option
def command(home: str, key: str, out: str | None, force: bool, as_json: bool) -> None:
    """Write the file KEY of HOME to disk or to stdout. Its hash is checked on the way.

    \b
    Examples:
      penstock files get out/ jobs/j1/report.xlsx
      penstock files get s3://my-bucket/dumps shop.sql --out - | psql shop

    FILE has its name only when it is whole. Exit codes: 0 done, 1 failed or not what was saved, 4 no such file.
    """
    files = opened(home)
    target = out or key.rsplit("/", 1)[-1]
    if target == "-":
        with resumable("what was written is not whole."):
            _copy(files, key, sys.stdout.buffer, quiet=True)
        return
    if Path(target).exists() and not force:
        raise click.UsageError(f"{target} is there already. Give --force to replace it, or another --out.")
    with resumable(f"nothing was written to {target}."), _replaced(Path(target)) as stream:
        size = _copy(files, key, stream, quiet=as_json)
    if as_json:
        print_json({"key": key, "file": target, "size": size})
    else:
        click.echo(f"{target}: {size_text(size)}, as it was saved")


def _copy(files: Files, key: str, target: BinaryIO, *, quiet: bool) -> int:
    with files.open(key) as stream:
        line = ByteLine(quiet=quiet)
        size = 0
        while block := stream.read(BLOCK_BYTES):
            target.write(block)
            size += len(block)
            line.add(len(block))
    line.end()
    return size


@contextmanager
def _replaced(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which gets its name at the end; nothing is left of it if that is not reached."""
    unfinished = path.with_name(f".{path.name}.{token_hex(4)}.part")
    try:
        try:
            with unfinished.open("xb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            unfinished.replace(path)
        except OSError as error:
            raise click.ClickException(f"{path}: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
