"""What an examination finds, as values."""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_EXAMPLES = 10
"""Keys that are named of each table and index; of the others, the number is told."""


@dataclass(slots=True)
class IndexFindings:
    """One index. Its rows can all be made again from the items."""

    name: str
    rows: int = 0
    """That can be read."""
    lost_pages: int = 0
    missing: int = 0
    """Items that should have a row and have none."""
    dangling: int = 0
    """Rows that point at no item."""
    wrong: int = 0
    """Rows of items whose values are others."""
    keys: list[str] = field(default_factory=list)
    """Some of the items concerned."""

    @property
    def sound(self) -> bool:
        return not (self.lost_pages or self.missing or self.dangling or self.wrong)


@dataclass(slots=True)
class TableFindings:
    """One DynamoDB table."""

    name: str
    account: str
    region: str
    items: int = 0
    """That can be read where they should be."""
    loose: int = 0
    """That can be read, although nothing leads to their pages: no call sees them, `--into` saves them."""
    lost_pages: int = 0
    broken: int = 0
    """Items whose row is there and cannot be what was written."""
    resized: int = 0
    """Items that have another size than their row says: something in them may have changed."""
    known_lost: int = 0
    """Items that can no longer be read, as far as an index still knows of them."""
    keys: list[str] = field(default_factory=list)
    """Some of those that are broken, resized or lost."""
    expiries: str = ""
    """What is wrong with the notes of when items end (TTL)."""
    indexes: list[IndexFindings] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        itself = self.loose or self.lost_pages or self.broken or self.resized or self.known_lost or self.expiries
        return not itself and all(index.sound for index in self.indexes)

    @property
    def lost(self) -> int:
        """Items that no new file will have, as far as is known."""
        return self.broken + self.known_lost


@dataclass(slots=True)
class Findings:
    """A file."""

    path: str
    bytes: int
    tables: list[TableFindings] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """What is wrong beside the tables: the list of tables, streams, backups, the journal."""
    sqlite: tuple[str, ...] = ()
    """What SQLite itself says of the pages."""

    @property
    def sound(self) -> bool:
        return not self.others and not self.sqlite and all(table.sound for table in self.tables)


def example(keys: list[str], key: str) -> None:
    """Notes a key, as long as there is room for examples."""
    if len(keys) < MOST_EXAMPLES and key not in keys:
        keys.append(key)
