"""What can be wrong with a stream, a group, or a change."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from penstock.clock import utc_text
from penstock.errors import PenstockError

_GROUP: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")


class StreamError(PenstockError):
    """What can be wrong with a stream."""


class NoStream(StreamError):
    """The table has no stream that is on."""

    def __init__(self, table: str, was_on: bool = False) -> None:
        how = "has no stream any more: it was switched off" if was_on else "has no stream"
        super().__init__(
            f"The table {table} {how}. Switch it on: `penstock streams enable {table}`, or "
            f'Table("{table}", …, stream="NEW_AND_OLD_IMAGES") and `penstock tables apply`.'
        )
        self.table = table


class NoTable(StreamError):
    """There is no such table."""

    def __init__(self, table: str, database: str) -> None:
        super().__init__(f"There is no table {table} in {database}. `penstock tables list` names those that are there.")
        self.table = table


class BadGroup(StreamError, ValueError):
    """A group's name, or an option of a consumer, that cannot be so."""


class NoGroup(StreamError):
    """There is no such group of consumers."""

    def __init__(self, table: str, group: str) -> None:
        super().__init__(
            f"The table {table} has no group {group} of consumers: a group is made by its first consumer. "
            f"`penstock streams status {table}` names those that are there."
        )


@dataclass(frozen=True, slots=True)
class Gap:
    """Changes of a shard that may be lost: DynamoDB keeps them for 24 hours, and nobody of the group has read them."""

    table: str
    group: str
    shard: str
    after: str | None
    """The last change that was done; None if none of the shard was."""
    last_at: float | None
    """When that was made."""
    found_at: float

    @property
    def form(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "table": self.table,
            "group": self.group,
            "shard": self.shard,
            "after": self.after,
            "last_at": None if self.last_at is None else utc_text(self.last_at),
            "found_at": utc_text(self.found_at),
        }

    def __str__(self) -> str:
        since = "its beginning" if self.last_at is None else f"the change of {utc_text(self.last_at)}"
        return (
            f"{self.table}, group {self.group or '(none)'}: changes of the shard {self.shard} after {since} may be "
            "lost: a stream keeps them for 24 hours."
        )


class StreamGap(StreamError):
    """Changes may be lost; `gap` says which."""

    def __init__(self, gap: Gap) -> None:
        super().__init__(
            f"{gap} Repair what depends on them, then continue with changes(on_gap='continue'), which keeps a note of "
            f"the gap and reads what is there, or begin anew with `penstock streams reset {gap.table}`."
        )
        self.gap = gap

    @property
    def form(self) -> dict[str, Any]:
        """The gap as JSON has it: the details of the error with --json."""
        return self.gap.form


class ChangeFailed(StreamError):
    """The handler has failed for a change, as often as it may. The change is not done: it comes again."""

    def __init__(self, change: Any, failures: int, reason: str) -> None:
        super().__init__(
            f"{change.table}: the {change.kind} of {change.keys} ({change.sequence_number}) failed {failures} times: "
            f"{reason} Repair the handler and start it again: it begins with this change. "
            "process(…, on_failure='keep') keeps such a change aside instead."
        )
        self.change = change


def checked_group(group: str) -> str:
    """A group's name. Raises BadGroup."""
    if not isinstance(group, str) or _GROUP.fullmatch(group) is None:
        raise BadGroup(f"A group's name has 1 to 100 letters, digits and -._ only, such as mailer; not {group!r:.120}.")
    return group
