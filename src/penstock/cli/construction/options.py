"""What the commands of `penstock construction` share: whose tables, the database, and how items are shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, TypeVar

import click

from penstock.cli.kit import databases
from penstock.cli.kit.databases import Absent
from penstock.cli.kit.output import plain, print_json
from penstock.cli.tables.options import env_option, prefix_option, url_option
from penstock.client.reads.pages import Items
from penstock.client.tables.values import Item
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.systems.construction_expenses.books import Books
from penstock.systems.construction_expenses.collection import NotThere
from penstock.systems.construction_expenses.intake import Handler, Intake, Receipt
from penstock.systems.construction_expenses.paddle import handle
from penstock.tables.definitions.naming import Naming
from penstock.tables.definitions.sources import LoadingError, named_object

F = TypeVar("F", bound=Callable[..., Any])

DEAD_LETTERED = 3
NOT_FOUND = 4

limit_option = click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="At most so many."
)
token_option = click.option("--token", metavar="TOKEN", help="Where the page before ended.")
handler_option = click.option(
    "--handler",
    metavar="MODULE:FUNCTION",
    help="What handles a webhook: (webhook, books) -> actions to write. [Paddle's events]",
)


def place_options(command: F) -> F:
    """--url, --env and --prefix."""
    return url_option(env_option(prefix_option(command)))


class NotFound(click.ClickException):
    exit_code = NOT_FOUND


@contextmanager
def opened(url: str, env: str | None, prefix: str | None, *, absent: Absent = "refused") -> Iterator[Books]:
    """The books; what is not there ends with its own exit code."""
    naming = Naming.of(os.environ, prefix=prefix, environment=env)
    with databases.open_database(url, absent) as db:
        try:
            yield Books(db, naming)
        except NotThere as error:
            raise NotFound(str(error)) from error
        except ResourceNotFoundException as error:
            raise PenstockError(
                f"{url} has not all tables of {naming.start}…: `penstock tables apply construction-expenses` makes "
                "them, and --env and --prefix say which are meant."
            ) from error


def intake_of(books: Books, handler: str | None, **settings: Any) -> Intake:
    return Intake(books, handle if handler is None else _named(handler), **settings)


def _named(given: str) -> Handler:
    module, _, attribute = given.partition(":")
    if not module or not attribute:
        raise LoadingError(given, "a handler is written MODULE:FUNCTION", "For example myapp.webhooks:handle")
    found: Handler = named_object(given, module, attribute)
    if not callable(found):
        raise LoadingError(given, f"{attribute} is no function", "Name a function (webhook, books) -> actions")
    return found


# ── showing ──────────────────────────────────────────────────────────────────────────────────────


def show_page(items: Items, line: Callable[[Item], str], as_json: bool) -> None:
    """A page of items: one on each line, and how to read on."""
    found = list(items)
    if as_json:
        print_json({"items": [plain(item) for item in found], "token": items.token})
        return
    for item in found:
        click.echo(line(item))
    if not found:
        click.echo("Nothing.")
    if items.token is not None:
        click.echo(f"More: --token '{items.token}'", err=True)


def receipt_line(receipt: Receipt) -> str:
    times = "1 attempt" if receipt.attempts == 1 else f"{receipt.attempts} attempts"
    told = f"{receipt.webhook_id}  {receipt.outcome}  {receipt.status} after {times}"
    if receipt.reason is not None:
        told += f": {receipt.reason}"
    if receipt.outcome == "dead-lettered":
        told += f" [{receipt.dlq_entry_id}]"
    return told


def show_receipts(receipts: Iterable[Receipt], as_json: bool) -> None:
    """Each as it comes; exit code 3 if one of them is in the dead-letter table."""
    found = []
    for receipt in receipts:
        found.append(receipt)
        if not as_json:
            click.echo(receipt_line(receipt))
    if as_json:
        print_json([asdict(receipt) for receipt in found])
    elif not found:
        click.echo("Nothing to do.")
    if any(receipt.outcome == "dead-lettered" for receipt in found):
        raise click.exceptions.Exit(DEAD_LETTERED)
