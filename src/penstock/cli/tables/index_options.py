"""The options that say what an index is like, each also an environment variable (S1.9), and what is made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from penstock.cli.tables.options import Order, is_named
from penstock.tables.definitions.definition import Attribute, Index, Key, Table

F = TypeVar("F", bound=Callable[..., Any])

_TYPE = click.Choice(["S", "N", "B"], case_sensitive=False)

_OPTIONS = (
    click.option("--table", required=True, envvar="TABLE_NAME", metavar="NAME", help="Also TABLE_NAME."),
    click.option("--index", required=True, envvar="INDEX_NAME", metavar="NAME", help="Also INDEX_NAME."),
    click.option("--partition-key", envvar="PARTITION_KEY", metavar="ATTRIBUTE", help="Also PARTITION_KEY."),
    click.option("--partition-key-type", envvar="PARTITION_KEY_TYPE", type=_TYPE, help="Also PARTITION_KEY_TYPE. [S]"),
    click.option("--sort-key", envvar="SORT_KEY", metavar="ATTRIBUTE", help="Also SORT_KEY."),
    click.option("--sort-key-type", envvar="SORT_KEY_TYPE", type=_TYPE, help="Also SORT_KEY_TYPE. [S]"),
    click.option(
        "--projection-type",
        envvar="PROJECTION_TYPE",
        type=click.Choice(["ALL", "KEYS_ONLY", "INCLUDE"], case_sensitive=False),
        help="Also PROJECTION_TYPE. [ALL]",
    ),
    click.option(
        "--projection-attributes",
        envvar="PROJECTION_ATTRIBUTES",
        metavar="NAMES",
        help="With INCLUDE: names, with commas between them. Also PROJECTION_ATTRIBUTES.",
    ),
    click.option("--force", is_flag=True, help="Make it even if stored items do not fit it."),
)


def index_options(command: F) -> F:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Said:
    """What was said of an index; None where nothing was."""

    partition_key: str | None
    partition_key_type: str | None
    sort_key: str | None
    sort_key_type: str | None
    projection_type: str | None
    projection_attributes: str | None

    @property
    def anything(self) -> bool:
        return any((self.partition_key, self.sort_key, self.projection_type, self.projection_attributes))

    @property
    def hash(self) -> tuple[Attribute, ...]:
        return _attribute(self.partition_key, self.partition_key_type)

    @property
    def range(self) -> tuple[Attribute, ...]:
        return _attribute(self.sort_key, self.sort_key_type)

    @property
    def projection(self) -> str | tuple[str, ...] | None:
        names = tuple(name.strip() for name in (self.projection_attributes or "").split(",") if name.strip())
        if self.projection_type == "INCLUDE" and not names:
            raise click.UsageError("INCLUDE needs --projection-attributes: the attributes that the index keeps.")
        if names and self.projection_type not in (None, "INCLUDE"):
            raise click.UsageError(f"--projection-attributes goes with INCLUDE, not with {self.projection_type}.")
        return names or self.projection_type

    def new_index(self, name: str) -> Index:
        return Index(name, key=Key(self.hash, self.range), projection=self.projection or "ALL")


def _attribute(name: str | None, kind: str | None) -> tuple[Attribute, ...]:
    return (Attribute(name, kind or "S"),) if name else ()


def defined_table(order: Order | None, name: str) -> Table | None:
    """The definition of a table that is given by its suffix or its full name."""
    tables = () if order is None else order.tables
    return next((table for table in tables if order is not None and is_named(table, name, order.naming)), None)


def full_name(order: Order | None, name: str) -> str:
    """A table that no definition names is called what it is called."""
    table = defined_table(order, name)
    return name if table is None or order is None else order.naming.full_name(table.name)
