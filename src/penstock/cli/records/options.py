"""What the commands on records share: where the records are, and how values are written."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import click
import orjson

from penstock.errors import PenstockError
from penstock.records.executors import Function, check_function
from penstock.records.record_state import BOOKKEEPING
from penstock.user_modules import NotAPlace, named

FAILED = 3

table_argument = click.argument("table", metavar="TABLE")
url_option = click.option(
    "--url", "--db", required=True, envvar="PENSTOCK_URL", metavar="URL",
    help="The database: a file, http://127.0.0.1:8000, or aws://eu-west-2. Also PENSTOCK_URL.",
)  # fmt: skip
bookkeeping_option = click.option(
    "--bookkeeping", default=BOOKKEEPING, show_default=True, metavar="NAME",
    help="The attribute of a record that has its lease and its attempts.",
)  # fmt: skip


def value_of(text: str) -> Any:
    """A value as people write it: JSON (`0`, `true`, `"0"`, `{"a": 1}`), or else the text itself."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return Decimal(text) if isinstance(found, float) else found


def pairs(option: str, texts: Iterable[str]) -> dict[str, Any]:
    """`NAME=VALUE`, several of them."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{option} is NAME=VALUE, such as {option} Processed=1; not {text!r}.")
        found[name] = value_of(value)
    return found


def load_function(place: str) -> Function:
    """The function that `module:name` names."""
    try:
        module, name, found = named(place, what="function", example="work:handle")
    except NotAPlace as error:
        raise click.UsageError(str(error)) from error
    if not callable(found):
        raise PenstockError(f"{module.__name__} has no function named {name}.")
    try:
        check_function(found)
    except TypeError as error:
        raise PenstockError(f"{place}: {error}.") from error
    function: Function = found
    return function
