"""What the commands of `penstock tables` share: their options, and the tables that DEFINITIONS names."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import click
import orjson

from penstock.cli.kit.completion import complete_definitions, complete_tables
from penstock.cli.kit.options import check_name_part, dry_run_option, json_option, yes_option
from penstock.cli.kit.output import one_line
from penstock.client.database import Database
from penstock.client.wrappers.pacing import Pacer
from penstock.errors import AccessDeniedException, PenstockError
from penstock.registry import system_tables
from penstock.tables.apply.conversations import MAX_WAIT_SECONDS, Pace
from penstock.tables.apply.table_changer import Waiting
from penstock.tables.definitions.definition import PRODUCTION, Naming, Table, check_names
from penstock.tables.definitions.sources import Definitions, load
from penstock.tables.plan.failures import TableFailed
from penstock.tables.state.state_table import LeaseHeld, StateTable

F = TypeVar("F", bound=Callable[..., Any])

definitions_argument = click.argument("definitions", shell_complete=complete_definitions)
optional_definitions_argument = click.argument("definitions", required=False, shell_complete=complete_definitions)
table_argument = click.argument("table", shell_complete=complete_tables)
env_option = click.option(
    "--env", envvar="PENSTOCK_ENVIRONMENT", metavar="NAME", callback=check_name_part,
    help="The environment, part of the tables' names except for production. Also PENSTOCK_ENVIRONMENT.",
)  # fmt: skip
prefix_option = click.option(
    "--prefix", metavar="TEXT", callback=check_name_part,
    help="What the tables' names begin with; '' for nothing. [what DEFINITIONS says]",
)  # fmt: skip
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
    envvar="PENSTOCK_MAX_WAIT",
    default=MAX_WAIT_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for what is under way. Also PENSTOCK_MAX_WAIT.",
)
rate_option = click.option(
    "--rate",
    type=click.FloatRange(min=1),
    metavar="UNITS",
    help="At most this many capacity units a second, per table.",
)


def segments_option(default: int) -> Callable[[F], F]:
    """--segments of a command that scans a table."""
    return click.option(
        "--segments", type=click.IntRange(1, 1000), default=default, show_default=True,
        help="Parts of the table that are scanned in parallel.",
    )  # fmt: skip


only_option = click.option(
    "--table", "only", multiple=True, metavar="NAME", shell_complete=complete_tables,
    help="Only this table, by suffix or full name; repeatable.",
)  # fmt: skip

parameter_option = click.option(
    "--parameter", "parameters", multiple=True, metavar="NAME=VALUE",
    help="A parameter of a CloudFormation template, or a value that only its stack knows; repeatable.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """How a change is to be made: --max-wait, --no-wait, --dry-run, --yes, --json, --no-lock and --allow-destroy."""

    max_wait: float
    dry_run: bool
    yes: bool
    as_json: bool
    no_lock: bool = False
    no_wait: bool = False
    allow_destroy: bool = False

    @property
    def pace(self) -> Pace:
        return Pace(max_wait_seconds=self.max_wait, waits_for_others=not self.no_wait)

    def state(self, db: Database) -> StateTable | None:
        """The table with leases and history; None with --no-lock."""
        return None if self.no_lock else StateTable(db)


no_lock_option = click.option(
    "--no-lock", is_flag=True,
    help="Go without the table penstock-state: no lease on the tables, nothing in their history.",
)  # fmt: skip


no_wait_option = click.option(
    "--no-wait", is_flag=True,
    help="Fail at once where somebody else's change or lease would be waited for. Own changes are waited for.",
)  # fmt: skip

_TOLD_FROM_SECONDS = 1.0
_TOLD_AGAIN_SECONDS = 60.0


class WaitLines:
    """Says on stderr what is waited for and how long: once, and again every minute, in a pipe too. With --json, each
    line is an object `{"waiting": …}`.
    """

    def __init__(self, max_wait: float, *, as_json: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_wait, self._as_json, self._clock = max_wait, as_json, clock
        self._since: dict[str, float] = {}
        self._told: dict[str, float] = {}

    def lease(self, held: LeaseHeld) -> None:
        """Tells who holds what is waited for."""
        what = " ".join(held.thing)
        waited = self._clock() - self._since.setdefault(what, self._clock())
        reason = f"the {what} is held by {held.holder or 'another process'}"
        line = self._line(what, reason, waited, max(0.0, self._max_wait - waited))
        if line is not None:
            click.echo(line, err=True)

    def line_of(self, event: Waiting) -> str | None:
        """The line for it, if it is to be told now: a refusal of a moment is not."""
        if event.waited_seconds + event.pause_seconds < _TOLD_FROM_SECONDS:
            return None
        return self._line(event.table, f"{event.table}: {event.reason}", event.waited_seconds, event.left_seconds)

    def _line(self, what: str, reason: str, waited: float, left: float) -> str | None:
        now = self._clock()
        if now - self._told.get(reason, float("-inf")) < _TOLD_AGAIN_SECONDS:
            return None
        self._told[reason] = now
        if self._as_json:
            form = {"on": what, "reason": reason, "waited_seconds": round(waited, 1), "left_seconds": round(left, 1)}
            return orjson.dumps({"waiting": form}).decode()
        so_far = f"{waited:,.0f} s so far, " if waited >= _TOLD_FROM_SECONDS else ""
        return f"Waiting: {one_line(reason)} ({so_far}at most {left:,.0f} s more; --no-wait fails instead)."


def change_options(function: Callable[..., None]) -> Callable[..., None]:
    """All of them, given to the command as `options`."""

    @wraps(function)
    def with_options(
        max_wait: float,
        dry_run: bool,
        yes: bool,
        as_json: bool,
        no_lock: bool,
        no_wait: bool,
        allow_destroy: bool = False,  # of the commands that have it
        **rest: Any,
    ) -> None:
        function(options=ChangeOptions(max_wait, dry_run, yes, as_json, no_lock, no_wait, allow_destroy), **rest)

    return max_wait_option(no_wait_option(no_lock_option(dry_run_option(yes_option(json_option(with_options))))))


def naming_options(function: F) -> F:
    """--env, --prefix and --layout."""
    return env_option(prefix_option(layout_option(function)))


@dataclass(frozen=True, slots=True)
class NamedTables:
    """Tables, where their definitions were found, and what they are called."""

    source: str
    tables: tuple[Table, ...]
    naming: Naming
    defined: frozenset[str] = frozenset()
    """The full names of all that the source defines, also those that --table leaves out."""

    def policy_command(self, command: str) -> str:
        """The command that writes the IAM policy for another command on these tables."""
        parts = ["penstock", "tables", "policy", self.source, "--for", command]
        return shlex.join([*parts, "--env", self.naming.environment, "--prefix", self.naming.prefix])


def naming_of(prefix: str | None, env: str | None) -> Naming:
    return Naming(prefix or "", env or PRODUCTION)


def load_tables(
    definitions: str,
    *,
    env: str | None,
    prefix: str | None,
    layout: str = "safe",
    only: tuple[str, ...] = (),
    parameters: tuple[str, ...] = (),
) -> NamedTables:
    """Loads DEFINITIONS; raises if a name cannot be. What they say that is not managed is told on standard error."""
    values = parse_texts("--parameter", parameters)
    loaded = load(definitions, system_tables(), layout=layout, variables=os.environ, parameters=values)
    for one in loaded.not_compared:
        click.echo(f"Not compared: {one}", err=True)
    naming = naming_of(loaded.prefix if prefix is None else prefix, env)
    tables = _select_tables(loaded, naming, only)
    check_names(tables, naming)
    defined = frozenset(naming.full_name(table.name) for table in loaded.tables)
    return NamedTables(loaded.source, tables, naming, defined)


def parse_texts(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """`NAME=VALUE`, several of them, each value as it is written."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{option} is NAME=VALUE; not {text!r}.")
        pairs[name] = value
    return pairs


def tables_options(function: Callable[..., None]) -> Callable[..., None]:
    """DEFINITIONS, --env, --prefix, --layout, --table and --parameter, given to the command as `named`."""

    @wraps(function)
    def with_tables(
        definitions: str,
        env: str | None,
        prefix: str | None,
        layout: str,
        only: tuple[str, ...],
        parameters: tuple[str, ...],
        **rest: Any,
    ) -> None:
        named = load_tables(definitions, env=env, prefix=prefix, layout=layout, only=only, parameters=parameters)
        function(named=named, **rest)

    return definitions_argument(naming_options(only_option(parameter_option(with_tables))))


def _select_tables(loaded: Definitions, naming: Naming, only: tuple[str, ...]) -> tuple[Table, ...]:
    if not only:
        return loaded.tables
    unknown = [name for name in only if not any(is_named(table, name, naming) for table in loaded.tables)]
    if unknown:
        names = ", ".join(table.name for table in loaded.tables)
        raise click.BadParameter(f"{loaded.source} has no {', '.join(unknown)}; it has {names}", param_hint="--table")
    return tuple(table for table in loaded.tables if any(is_named(table, name, naming) for name in only))


def is_named(table: Table, name: str, naming: Naming) -> bool:
    """By its suffix or by its full name."""
    return name in (table.name, naming.full_name(table.name))


def pacer_of(db: Database, rate: float | None) -> Pacer | None:
    """A fixed rate; else one learnt from throttles, where there are any."""
    if rate is not None:
        return Pacer(rate)
    return Pacer() if db.capabilities.metered else None


@contextmanager
def policy_hint(command: str, *tables: str) -> Iterator[None]:
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
