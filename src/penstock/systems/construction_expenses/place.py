"""What every command of `penstock construction` shares: which tables are meant, and how a page of items is shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from penstock.cli.kit.databases import Absent, open_database
from penstock.cli.kit.exit_codes import NOT_FOUND, CommandFailed
from penstock.cli.kit.options import check_name_part, db_option, place_options
from penstock.cli.kit.output import plain, print_json
from penstock.client.items.values import Item
from penstock.client.reads.pages import Items
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.systems.construction_expenses.books import Books, NotThere, naming_of

env_option = click.option(
    "--env", envvar="ENVIRONMENT", metavar="NAME", callback=check_name_part,
    help="The environment in the names of the tables. [ENVIRONMENT, else production]",
)  # fmt: skip
prefix_option = click.option(
    "--prefix", envvar="TABLE_PREFIX", metavar="TEXT", callback=check_name_part,
    help="The prefix of the names of the tables. [TABLE_PREFIX, else construction-expenses]",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """Which tables are meant: --db, --env and --prefix."""

    target: str
    env: str | None
    prefix: str | None

    @contextmanager
    def books(self, absent: Absent = "refused") -> Iterator[Books]:
        """The books; what is not there ends with its own exit code."""
        naming = naming_of(os.environ, prefix=self.prefix, environment=self.env)
        with open_database(self.target, absent) as db:
            try:
                yield Books(db, naming)
            except NotThere as error:
                raise CommandFailed(NOT_FOUND, str(error)) from error
            except ResourceNotFoundException as error:
                raise PenstockError(
                    f"{self.target} has not all tables of {naming.start}…: `penstock construction tables apply` makes "
                    "them, and --env and --prefix say which are meant."
                ) from error


with_place = place_options(Place, db_option(), env_option, prefix_option)


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
