"""`penstock accounts add`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import click
import orjson

from penstock.cli.accounts.options import Place, placed
from penstock.cli.kit.options import json_option, parse_pairs, resumable
from penstock.cli.kit.output import plain, print_json
from penstock.errors import PenstockError


@click.command("add")
@click.argument("file", type=click.File("rb"), required=False)
@click.option("--account", metavar="ID", help="AccountId of one record.")
@click.option("--run-time", metavar="TIME", help="Its RunTime, such as 2026-02-17T12:00:00Z.")
@click.option("--set", "texts", multiple=True, metavar="NAME=VALUE", help="A further attribute; repeatable.")
@placed
@json_option
def command(
    place: Place,
    file: BinaryIO | None,
    account: str | None,
    run_time: str | None,
    texts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Add records that are to be processed: one by options, or those of FILE (- is stdin).

    \b
    Examples:
      penstock accounts add --account ACC12345 --run-time 2026-02-17T12:00:00Z --set DocumentId=DOC67890
      penstock accounts add records.jsonl --url accounts.db

    FILE has a JSON object, an array of them, or one on each line, with AccountId, RunTime and whatever else. A record
    with the same key is replaced.
    """
    if (file is None) == (account is None and run_time is None):
        raise click.UsageError("Give a FILE of records, or --account and --run-time of one.")
    shown: list[dict[str, Any]] = []
    number = 0
    with place.records() as records, resumable("Records that were added are replaced."):
        for form in _forms(file) if file is not None else [_form(account, run_time, texts)]:
            added = records.put_item(form)
            number += 1
            if as_json:
                shown.append(plain(added))
    if as_json:
        print_json(shown)
    else:
        click.echo(f"Added {number:,} record{'' if number == 1 else 's'}.")


def _form(account: str | None, run_time: str | None, texts: tuple[str, ...]) -> dict[str, Any]:
    return {"AccountId": account, "RunTime": run_time, "Processed": 0, **parse_pairs("--set", texts)}


def _forms(file: BinaryIO) -> Iterator[dict[str, Any]]:
    """A line at a time, unless the file is one document."""
    first = file.readline()
    try:
        whole = orjson.loads(first)
    except orjson.JSONDecodeError:
        whole = _loaded(first + file.read(), "the file")
    for number, form in enumerate(whole if isinstance(whole, list) else [whole], start=1):
        yield _checked(form, f"record {number}")
    for number, line in enumerate(file, start=2):
        if line.strip():
            yield _checked(_loaded(line, f"line {number}"), f"line {number}")


def _checked(form: Any, where: str) -> dict[str, Any]:
    if not isinstance(form, dict):
        raise PenstockError(f"{where}: a record is a JSON object, not {type(form).__name__}")
    return form


def _loaded(text: bytes, where: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise PenstockError(f"{where} is no JSON: {error}") from error
