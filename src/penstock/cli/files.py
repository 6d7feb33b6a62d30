"""`penstock files`: files in a folder or in a bucket."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path, PurePath
from secrets import token_hex
from typing import BinaryIO, TextIO

import click

from penstock.cli.kit.exit_codes import DIFFERENT, FAILED, NOT_FOUND, CommandFailed
from penstock.cli.kit.groups import Group
from penstock.cli.kit.options import AgeType, confirm, dry_run_option, json_option, resumable, yes_option
from penstock.cli.kit.output import ByteLine, count_text, has_reader, print_json, print_result, size_text
from penstock.clock import utc_text
from penstock.files import FileMissing, Files, ListedFile, StoreMissing, Swept, errors, open_files
from penstock.files.content import BLOCK_BYTES
from penstock.files.file_store import LONGEST_URL_SECONDS, URL_SECONDS, Keep, Verified
from penstock.files.file_store import verify as verify_files
from penstock.files.folder import FolderFiles
from penstock.files.lifecycle import EXPIRY_DAYS, Change, apply, describe, inspect, plan

_STDIN = "-"
_NO_SUCH_FILE = {NOT_FOUND: "no such file"}

home_argument = click.argument("home", metavar="HOME")


class FilesGroup(Group):
    """A missing file or home has an exit code of its own."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            if isinstance(error.__cause__, FileMissing | StoreMissing):
                raise CommandFailed(NOT_FOUND, error.message) from error.__cause__
            raise


@click.group("files", cls=FilesGroup, exit_codes={NOT_FOUND: "not found", DIFFERENT: "changed or gone (verify)"})
def command() -> None:
    """Files in a folder or in an S3 bucket: saved whole, with their hashes.

    HOME is a folder, a file:// URL, or s3://bucket/prefix (?region=… and ?profile=… may follow).

    \b
    Examples:
      penstock files put out/ report.xlsx jobs/j1/report.xlsx
      penstock files list s3://my-bucket/reports jobs/j1/
      penstock files verify out/
    """


def open_home(home: str) -> Files:
    """The home, for reading: a folder that is not there has nothing, and is more likely misspelt."""
    files = open_files(home)
    if isinstance(files, FolderFiles) and not Path(files.where).is_dir():
        raise StoreMissing(files.where, "there is no such folder", "Give the folder that files were saved in")
    return files


@command.command("list", short_help="List files.", exit_codes={NOT_FOUND: "no such home"})
@home_argument
@click.argument("prefix", default="")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most this many.")
@json_option
def list_(home: str, prefix: str, limit: int | None, as_json: bool) -> None:
    """List the files of HOME whose keys begin with PREFIX, in the order of their keys.

    \b
    Examples:
      penstock files list out/
      penstock files list s3://my-bucket/reports jobs/j1/ --json
    """
    listed: list[ListedFile] = []
    number = size = 0
    for file in open_home(home).list(prefix):
        if number == limit:
            click.echo(f"More than {limit:,}: give a longer prefix or a higher --limit.", err=True)
            break
        number, size = number + 1, size + file.size
        if as_json:
            listed.append(file)
        else:
            click.echo(f"{file.size:>15,}  {utc_text(file.changed_at)}  {file.key}")
        if not has_reader():
            raise click.exceptions.Exit(FAILED)
    if as_json:
        print_json([{"key": one.key, "size": one.size, "changed_at": utc_text(one.changed_at)} for one in listed])
    else:
        click.echo(f"{count_text(number)}, {size_text(size)}", err=True)


@command.command(
    "get", short_help="Write a file to disk or to stdout, its hash checked.",
    exit_codes={1: "failed, or not what was saved", **_NO_SUCH_FILE},
)  # fmt: skip
@home_argument
@click.argument("key")
@click.option("--out", metavar="FILE", help="The file to write; - is stdout. By default the last part of the key.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@json_option
def get(home: str, key: str, out: str | None, force: bool, as_json: bool) -> None:
    """Write the file KEY of HOME to disk or to stdout. Its hash is checked on the way.

    \b
    Examples:
      penstock files get out/ jobs/j1/report.xlsx
      penstock files get s3://my-bucket/dumps shop.sql --out - | psql shop

    FILE has its name only when it is whole.
    """
    files = open_home(home)
    target = out or key.rsplit("/", 1)[-1]
    if target == "-":
        with resumable("what was written is not whole."):
            _copy(files, key, sys.stdout.buffer, quiet=True)
        return
    if Path(target).exists() and not force:
        raise click.UsageError(f"{target} exists already. Give --force to replace it, or another --out.")
    with resumable(f"nothing was written to {target}."), _open_replacement(Path(target)) as stream:
        size = _copy(files, key, stream, quiet=as_json)
    print_result(
        {"key": key, "file": target, "size": size}, f"{target}: {size_text(size)}, as it was saved", as_json=as_json
    )


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
def _open_replacement(path: Path) -> Iterator[BinaryIO]:
    """A file to write. It gets its name at the end; after an error nothing is left of it."""
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


@command.command("put", short_help="Save a file, whole or not at all.")
@home_argument
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.argument("key", required=False)
@click.option("--type", "content_type", metavar="TYPE", help="Its content type; else by the key's ending.")
@json_option
def put(home: str, file: str, key: str | None, content_type: str | None, as_json: bool) -> None:
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
    with resumable(f"nothing of {key} was saved."), _open_source(file) as stream:
        saved = open_files(home).save(key, CountedFile(stream, line), content_type=content_type)
    line.end()
    print_result(saved.form(), f"{saved.key}: {size_text(saved.size)}, SHA-256 {saved.sha256}", as_json=as_json)


def _open_source(file: str) -> AbstractContextManager[BinaryIO]:
    if file == _STDIN:
        # Unbuffered: a buffer that waits to be filled does not look whether Ctrl-C was pressed.
        return nullcontext(getattr(sys.stdin.buffer, "raw", sys.stdin.buffer))
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from error


class CountedFile:
    """A file that reports how much of it was read."""

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


@command.command("delete", short_help="Delete files, by their exact keys.", exit_codes=_NO_SUCH_FILE)
@home_argument
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@dry_run_option
@yes_option
@json_option
def delete(home: str, keys: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete the files of HOME that have these exact keys.

    \b
    Examples:
      penstock files delete out/ jobs/j1/report.xlsx --dry-run
      penstock files delete s3://my-bucket/reports j1/a.json j1/b.json --yes

    If one of them is not there, nothing is deleted.
    """
    files = open_home(home)
    missing = [key for key in keys if not files.exists(key)]
    if missing:
        raise CommandFailed(NOT_FOUND, f"{files.where} has no {', '.join(missing)}. Nothing was deleted.")
    if not as_json:
        for key in keys:
            click.echo(f"  - {key}")
    if not dry_run:
        confirm(f"Delete {count_text(len(keys))} of {files.where}?", yes=yes)
        with resumable("those before the one it was at are deleted."):
            for key in keys:
                files.delete(key)
    form = {"deleted": [] if dry_run else list(keys), "would_delete": list(keys) if dry_run else []}
    print_result(form, f"{'Would delete' if dry_run else 'Deleted'} {count_text(len(keys))}.", as_json=as_json)


@command.command("url", short_help="Print a URL that others can read a file at.", exit_codes=_NO_SUCH_FILE)
@home_argument
@click.argument("key")
@click.option(
    "--seconds", type=click.IntRange(1, LONGEST_URL_SECONDS), default=URL_SECONDS, show_default=True,
    help="How long the URL is valid.",
)  # fmt: skip
@json_option
def url(home: str, key: str, seconds: int, as_json: bool) -> None:
    """Print a URL of the file KEY: signed and valid for a time in a bucket, file:// in a folder.

    \b
    Examples:
      penstock files url s3://my-bucket/reports jobs/j1/report.xlsx --seconds 600
      curl -O "$(penstock files url s3://my-bucket/reports jobs/j1/report.xlsx)"

    Whoever has a signed URL can read the file until it expires.
    """
    files = open_home(home)
    if not files.exists(key):
        raise errors.missing(files.name_of(key))
    address = files.url(key, seconds=seconds)
    expiry = seconds if home.startswith("s3:") else None
    print_result({"key": key, "url": address, "seconds": expiry}, address, as_json=as_json)


@command.command(
    "verify", short_help="Read every file, and compare it with the hash that it was saved with.",
    exit_codes={DIFFERENT: "some changed or gone"},
)  # fmt: skip
@home_argument
@click.argument("prefix", default="")
@json_option
def verify(home: str, prefix: str, as_json: bool) -> None:
    """Read every file of HOME whose key begins with PREFIX, and compare it with the hash that it was saved with.

    \b
    Examples:
      penstock files verify out/
      penstock files verify s3://my-bucket/reports jobs/j1/ --json
    """
    line = ByteLine(quiet=as_json)
    with resumable("it reads only, so nothing has changed."):
        verified = verify_files(open_home(home), prefix, line.add)
    line.end()
    if as_json:
        pairs = {name: dict(getattr(verified, name)) for name in ("changed", "lost")}
        print_json(asdict(verified) | pairs | {"good": verified.good})
    else:
        _print_verification(verified)
    if not verified.good:
        raise click.exceptions.Exit(DIFFERENT)


def _print_verification(verified: Verified) -> None:
    for what, pairs in (("changed", verified.changed), ("lost", verified.lost)):
        for key, reason in pairs:
            click.echo(f"{click.style(what, fg='red')}  {key}: {reason}")
    text = f"{count_text(verified.files)}, {size_text(verified.size)}"
    if verified.unknown:
        text += f", {verified.unknown:,} of them without a hash (not saved by Penstock)"
    wrong = f"{len(verified.changed):,} changed, {len(verified.lost):,} lost"
    click.echo(f"{text}: {'as they were saved' if verified.good else wrong}.")


@command.command("sweep", short_help="Remove leftovers of interrupted saves, and unknown files.")
@home_argument
@click.option("--keep", type=click.File("r"), metavar="FILE", help="The keys that are known, one a line; - is stdin.")
@click.option("--older-than", type=AgeType(), default="24h", show_default=True, help="Keep what is younger.")
@dry_run_option
@yes_option
@json_option
def sweep(home: str, keep: TextIO | None, older_than: float, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove leftovers of interrupted saves; with --keep, also every file whose key is not in FILE.

    \b
    Examples:
      penstock files sweep out/ --dry-run
      penstock files sweep s3://my-bucket/reports --keep keys.txt --older-than 7d

    A save that is under way is never touched.
    """
    files, known = open_home(home), _known_keys(keep)
    listed: list[ListedFile] = []
    swept = files.sweep(known, older_than_seconds=older_than, dry_run=True, tell=listed.append)
    if not as_json:
        _print_sweep_plan(listed, swept)
    if listed and not dry_run:
        confirm(f"Remove {count_text(len(listed))} from {files.where}?", yes=yes)
        with resumable("what was removed is gone, the rest is as it was."):
            swept = files.sweep(known, older_than_seconds=older_than)
        if not as_json:
            click.echo(f"Removed {count_text(swept.leftovers + swept.orphans)}, {size_text(swept.size)}.")
    if as_json:
        print_json(asdict(swept) | {"dry_run": dry_run, "keys": [file.key for file in listed]})


def _known_keys(keep: TextIO | None) -> Keep | None:
    if keep is None:
        return None
    keys = {line.rstrip("\r\n") for line in keep} - {""}
    if not keys:
        raise click.UsageError(f"{keep.name} has no keys, so every file would go. Give the keys that are known.")
    return keys.__contains__


def _print_sweep_plan(listed: list[ListedFile], swept: Swept) -> None:
    for file in listed:
        click.echo(f"  - {file.key}   {size_text(file.size)}")
    if not listed:
        click.echo("Nothing to sweep.")
        return
    text = f"{count_text(swept.leftovers, 'leftover')}, {count_text(swept.orphans, 'orphan')}"
    click.echo(f"Plan: {text}, {size_text(swept.size)}.")


@command.command("lifecycle", short_help="Set a bucket's tiering, expiry and encryption.")
@home_argument
@click.option(
    "--days", type=click.IntRange(1, 36_500), default=EXPIRY_DAYS, show_default=True, help="How long files are kept."
)
@dry_run_option
@yes_option
@json_option
def lifecycle(home: str, days: int, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Set the tiering, expiry and encryption of HOME's bucket.

    Files move to Intelligent-Tiering at once and are deleted after 90 days; they are encrypted by S3 and not versioned.
    Staging files and unfinished uploads are deleted after a day. With a prefix, tiering and expiry apply to the files
    under it; encryption and versioning apply to the whole bucket. Other rules are kept.

    \b
    Examples:
      penstock files lifecycle s3://my-bucket --dry-run
      penstock files lifecycle s3://my-bucket/reports --days 30 --yes
    """
    from penstock.files.bucket import BucketFiles

    files = open_files(home)
    if not isinstance(files, BucketFiles):
        raise click.UsageError(f"{home} is a folder; only a bucket has a lifecycle. Give s3://bucket.")
    changes = plan(inspect(files.s3), files.prefix, days)
    if not as_json:
        _print_lifecycle(files.where, changes)
    if changes and not dry_run:
        confirm(f"Change the settings of s3://{files.s3.bucket}? Files older than {days} days are deleted.", yes=yes)
        with resumable("the settings before the one it was at are made."):
            apply(files.s3, changes)
        if not as_json:
            click.echo("Done.")
    if as_json:
        lines = [line for change in changes for line in describe(change)]
        print_json({"home": files.where, "changes": lines, "applied": bool(changes) and not dry_run})


def _print_lifecycle(where: str, changes: tuple[Change, ...]) -> None:
    click.echo(where)
    for change in changes:
        for line in describe(change):
            click.echo(f"  ~ {line}")
    if not changes:
        click.echo("  all as it should be")
