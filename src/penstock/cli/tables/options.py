"""What the commands of `penstock tables` share: their options, and what is made of them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import click

from penstock.cli.kit.options import dry_run_option, json_option, yes_option
from penstock.client.database import Database
from penstock.client.wrappers.pacing import Pacer
from penstock.errors import AccessDeniedException, PenstockError
from penstock.registry import system_tables
from penstock.tables.apply.failures import TableFailed
from penstock.tables.apply.side_by_side import MAX_WAIT_SECONDS
from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.naming import Naming, check_names
from penstock.tables.definitions.sources import Definitions, load

F = TypeVar("F", bound=Callable[..., Any])

INTERRUPTED = 130
CHANGES = 7

definitions_argument = click.argument("definitions")
url_option = click.option(
    "--url",
    required=True,
    envvar="PENSTOCK_URL",
    metavar="URL",
    help="The database: a file, http://127.0.0.1:8000, or aws://eu-west-2. Also PENSTOCK_URL.",
)
unused_url_option = click.option("--url", metavar="URL", expose_value=False, help="Not needed: no database is asked.")
env_option = click.option(
    "--env", metavar="NAME", help="The environment, part of the tables' names. [ENVIRONMENT, else production]"
)
prefix_option = click.option(
    "--prefix", metavar="TEXT", help="What the tables' names begin with. [TABLE_PREFIX, else the system's own]"
)
layout_option = click.option(
    "--layout",
    type=click.Choice(["safe", "compat"]),
    default="safe",
    show_default=True,
    help="Which tables, where a system has its original ones too.",
)
max_wait_option = click.option(
    "--max-wait",
    type=click.FloatRange(min=0),
    envvar="MAX_WAIT",
    default=MAX_WAIT_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for what is under way. Also MAX_WAIT.",
)
rate_option = click.option(
    "--rate", type=click.FloatRange(min=1), metavar="UNITS", help="At most so many capacity units a second, per table."
)
tables_option = click.option(
    "--table", "only", multiple=True, metavar="NAME", help="Only this table, by suffix or full name; repeatable."
)


@dataclass(frozen=True, slots=True)
class Manner:
    """How a change is to be made: --max-wait, --dry-run, --yes and --json."""

    max_wait: float
    dry_run: bool
    yes: bool
    as_json: bool


def manner_options(function: Callable[..., None]) -> Callable[..., None]:
    """The four of them, given to the command as `manner`."""

    @wraps(function)
    def command(max_wait: float, dry_run: bool, yes: bool, as_json: bool, **rest: Any) -> None:
        function(manner=Manner(max_wait, dry_run, yes, as_json), **rest)

    return max_wait_option(dry_run_option(yes_option(json_option(command))))


def naming_options(command: F) -> F:
    """--env, --prefix and --layout."""
    return env_option(prefix_option(layout_option(command)))


@dataclass(frozen=True, slots=True)
class Order:
    """Tables and how they are called."""

    definitions: Definitions
    naming: Naming

    @property
    def tables(self) -> tuple[Table, ...]:
        return self.definitions.tables

    def policy_command(self, command: str) -> str:
        """The command that writes the IAM policy for another command on these tables."""
        parts = ["penstock", "tables", "policy", self.definitions.source, "--for", command]
        return shlex.join([*parts, "--env", self.naming.environment, "--prefix", self.naming.prefix])


def order_of(
    definitions: str, *, env: str | None, prefix: str | None, layout: str = "safe", only: tuple[str, ...] = ()
) -> Order:
    """Loads DEFINITIONS; raises if a name cannot be."""
    found = load(definitions, system_tables(), layout=layout, variables=os.environ)
    naming = Naming.of(os.environ, prefix=prefix, environment=env, default_prefix=found.prefix)
    kept = Definitions(found.source, _chosen(found, naming, only), found.prefix)
    check_names(kept.tables, naming)
    return Order(kept, naming)


def ordered(function: Callable[..., None]) -> Callable[..., None]:
    """DEFINITIONS, --env, --prefix, --layout and --table, given to the command as `order`."""

    @wraps(function)
    def command(
        definitions: str, env: str | None, prefix: str | None, layout: str, only: tuple[str, ...], **rest: Any
    ) -> None:
        function(order=order_of(definitions, env=env, prefix=prefix, layout=layout, only=only), **rest)

    return definitions_argument(naming_options(tables_option(command)))


def _chosen(found: Definitions, naming: Naming, only: tuple[str, ...]) -> tuple[Table, ...]:
    if not only:
        return found.tables
    unknown = [name for name in only if not any(is_named(table, name, naming) for table in found.tables)]
    if unknown:
        names = ", ".join(table.name for table in found.tables)
        raise click.BadParameter(f"{found.source} has no {', '.join(unknown)}; it has {names}", param_hint="--table")
    return tuple(table for table in found.tables if any(is_named(table, name, naming) for name in only))


def is_named(table: Table, name: str, naming: Naming) -> bool:
    """By its suffix or by its full name."""
    return name in (table.name, naming.full_name(table.name))


def pacer_of(db: Database, rate: float | None) -> Pacer | None:
    """A fixed rate; else one learnt from throttles. The embedded engine needs none."""
    if rate is not None:
        return Pacer(rate)
    return None if db.batch_workers == 1 else Pacer()


@contextmanager
def permitted(command: str, *tables: str) -> Iterator[None]:
    """A missing permission is told with the command that writes the policy."""
    try:
        yield
    except (AccessDeniedException, TableFailed) as error:
        code = error.failure.code if isinstance(error, TableFailed) else error.code
        if code != AccessDeniedException.__name__:
            raise
        names = [word for table in tables for word in ("--name", table)]
        writer = shlex.join(["penstock", "tables", "policy", "--for", command, *names])
        raise PenstockError(f"{error} `{writer}` writes the policy that allows all of `{command}`.") from error
