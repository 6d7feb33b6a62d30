"""What a table is called: its prefix, its environment and its suffix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.problems import NAME_CHARACTERS, SHORTEST_NAME, DefinitionError, Problem

PRODUCTION = "production"
DEFAULT_REGION = "us-east-1"

MANAGER = "penstock"
STANDARD_TAGS = ("Application", "CreatedAt", "Environment", "ManagedBy")
"""Put on a table when it is made, and never compared: they say where and when, not what."""


@dataclass(frozen=True, slots=True)
class Naming:
    """`{prefix}-{suffix}` in production, `{prefix}-{environment}-{suffix}` elsewhere.

    An empty prefix, which is the default, leaves no dash: a table has its own name.
    """

    prefix: str = ""
    environment: str = PRODUCTION
    region: str = DEFAULT_REGION

    @property
    def start(self) -> str:
        """What every full name begins with."""
        place = "" if self.environment == PRODUCTION else self.environment
        return "".join(f"{part}-" for part in (self.prefix, place) if part)

    def full_name(self, suffix: str) -> str:
        """The name of the table in the database."""
        return self.start + suffix

    def suffix(self, full_name: str) -> str | None:
        """The suffix of a table of this environment; None for a table that is none of it."""
        start = self.start
        return full_name[len(start) :] if full_name.startswith(start) and full_name != start else None

    def named(self, table: Table) -> Table:
        """The definition under its full name."""
        return table.renamed(self.full_name(table.name))

    def tags(self, created_at: str) -> dict[str, str]:
        """What a new table is tagged with beside its own tags."""
        return {
            "Application": self.prefix or MANAGER,
            "CreatedAt": created_at,
            "Environment": self.environment,
            "ManagedBy": MANAGER,
        }


def check_names(tables: Iterable[Table], naming: Naming) -> None:
    """Raises DefinitionError if a full name is too short or too long, for every one that is."""
    problems = [one for table in tables for one in _name_problems(naming.full_name(table.name), table.name, naming)]
    if problems:
        raise DefinitionError(problems)


def _name_problems(name: str, suffix: str, naming: Naming) -> tuple[Problem, ...]:
    if SHORTEST_NAME <= len(name) <= NAME_CHARACTERS:
        return ()
    size = "long" if len(name) > NAME_CHARACTERS else "short"
    parts = f"prefix {naming.prefix!r} and environment {naming.environment!r}"
    text = f"its full name, with {parts}, has {len(name)} characters"
    mend = f"DynamoDB allows {SHORTEST_NAME} to {NAME_CHARACTERS}: it is too {size}; take another prefix or name"
    return (Problem(f"table {suffix!r}", text, mend),)
