"""`penstock files`: files in a folder or in a bucket."""

from __future__ import annotations

import click

from penstock.cli.kit.groups import Group

_HERE = "penstock.cli.files"

NOT_FOUND = 4

# name → (file, what `penstock files --help` says of it)
COMMANDS = {
    "delete": (f"{_HERE}.delete", "Delete files, by their exact keys."),
    "get": (f"{_HERE}.get", "Write a file to disk or to stdout, its hash checked."),
    "lifecycle": (f"{_HERE}.lifecycle", "Have a bucket tier, expire and encrypt its files."),
    "list": (f"{_HERE}.list", "List files."),
    "put": (f"{_HERE}.put", "Save a file, whole or not at all."),
    "sweep": (f"{_HERE}.sweep", "Remove what cut-off saves left, and files that nobody knows."),
    "url": (f"{_HERE}.url", "Print a URL that others can read a file at."),
    "verify": (f"{_HERE}.verify", "Read every file, and compare it with the hash that it was saved with."),
}


class NotFound(click.ClickException):
    exit_code = NOT_FOUND


class FilesGroup(Group):
    """What is not there has an exit code of its own."""

    def invoke(self, ctx: click.Context) -> object:
        from penstock.files import FileMissing, HomeMissing

        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            if isinstance(error.__cause__, FileMissing | HomeMissing):
                raise NotFound(error.message) from error
            raise


@click.group("files", cls=FilesGroup, lazy=COMMANDS)
def command() -> None:
    """Files in a folder or in an S3 bucket: saved whole, with their hashes.

    HOME is a folder, a file:// URL, or s3://bucket/prefix (?region=… and ?profile=… may follow).

    \b
    Examples:
      penstock files put out/ report.xlsx jobs/j1/report.xlsx
      penstock files list s3://my-bucket/reports jobs/j1/
      penstock files verify out/

    Exit codes: 0 done, 1 failed or different, 2 called wrongly or not confirmed, 4 not found, 130 interrupted.
    """
