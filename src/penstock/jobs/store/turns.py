"""Whose turn it is: where a new job stands among the ready ones of its priority, so that tenants are served in turn.

Start-time fair queueing, with its virtual time in the key of the claim index: a claim is the same Query whatever the
number of tenants.

1. Ready jobs of one priority are in the order of their turns, which are times; a job without one has its `run_at`.
2. A tenant's next turn is a millisecond after its last one, or that of the first job in line where this is later. So a
   tenant for which nothing waits comes next, and one that enqueues 15,000 jobs at once has them between the others'.
3. Turns are reserved by one conditional write of the tenant's item, so that processes that enqueue at once share them.
   A process that enqueues quickly reserves more at a time; those that it has not used in 100 ms are dropped.
4. The first job in line is read once in a second, and ten times in a second while there is none. What this is behind by
   is how far a tenant may be ahead of its turn. The first turn that is given while there is none is that of the first.
5. Turns only order jobs: whatever is lost or read too late, no job is. Where nobody has a tenant, nothing is written.
6. Jobs without a tenant that have a rate key take turns by that key: of many jobs of one key, most cannot start soon,
   and a job of another key is found before they have been moved out of its way (rates.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.errors import ConditionalCheckFailedException
from penstock.jobs.layouts.layout import Item
from penstock.jobs.store.side_items import SideItems

_HEAD_SECONDS: Final = 1.0
_NO_HEAD_SECONDS: Final = 0.1
_RESERVED_SECONDS: Final = 0.1
_MOST_RESERVED: Final = 64
_TRIES: Final = 5
_KEPT_SECONDS: Final = 24 * 3600
_MOST_REMEMBERED: Final = 10_000

Line = tuple[str, int]
"""A queue and a priority: jobs of other ones are no competitors."""


@dataclass(slots=True)
class _Reserved:
    """Turns of a tenant that nobody else has, in milliseconds."""

    first: int
    end: int
    count: int
    until: float


class Turns:
    """Gives turns to the jobs of one table. `read_head` finds the turn of the first job in a line."""

    def __init__(self, side_items: SideItems, read_head: Callable[[str, int], float | None], ttl_name: str) -> None:
        self._side_items = side_items
        self._read_head = read_head
        self._ttl_name = ttl_name
        self._heads: dict[Line, tuple[float, int | None]] = {}
        self._reserved: dict[tuple[Line, str], _Reserved] = {}

    def next_turn(self, queue: str, priority: int, tenant: str, now: float) -> float:
        flow = (queue, priority), tenant
        kept = self._reserved.get(flow)
        if kept is None or kept.first >= kept.end or now > kept.until:
            is_quick = kept is not None and now <= kept.until
            kept = self._reserve(*flow, min(2 * kept.count, _MOST_RESERVED) if kept and is_quick else 1, now)
            if len(self._reserved) >= _MOST_REMEMBERED:
                self._reserved.clear()
            self._reserved[flow] = kept
        turn = kept.first
        kept.first += 1
        read_at, first = self._heads.get(flow[0], (0.0, None))
        if first is None:
            self._heads[flow[0]] = read_at, turn
        return turn / 1000

    def _reserve(self, line: Line, tenant: str, count: int, now: float) -> _Reserved:
        name = f"turn#{line[0]}#{line[1]}#{tenant}"
        head = self._head(line, now)
        for _ in range(_TRIES):
            end = self._continue(name, count, head) or self._begin(name, count, head, now)
            if end is not None:
                break
        else:
            end = head + count
        return _Reserved(end - count, end, count, now + _RESERVED_SECONDS)

    def _head(self, line: Line, now: float) -> int:
        """In milliseconds; now where nobody is in line."""
        read_at, head = self._heads.get(line, (0.0, None))
        if not read_at <= now < read_at + (_NO_HEAD_SECONDS if head is None else _HEAD_SECONDS):
            found = self._read_head(*line)
            head = None if found is None else round(found * 1000)
            self._heads[line] = now, head
        return round(now * 1000) if head is None else head

    def _continue(self, name: str, count: int, head: int) -> int | None:
        """The end of the turns after the tenant's last ones; None where these are before the head."""
        values: Item = {":count": {"N": str(count)}, ":head": {"N": str(head)}}
        return self._update(name, "SET #end = #end + :count", "#end >= :head", {"#end": "end"}, values)

    def _begin(self, name: str, count: int, head: int, now: float) -> int | None:
        """The end of the turns from the head on; None where the tenant has later ones already."""
        ttl = str(int(now) + _KEPT_SECONDS)
        values: Item = {":end": {"N": str(head + count)}, ":head": {"N": str(head)}, ":ttl": {"N": ttl}}
        names = {"#end": "end", "#ttl": self._ttl_name}
        condition = "attribute_not_exists(#end) OR #end < :head"
        return self._update(name, "SET #end = :end, #ttl = :ttl", condition, names, values)

    def _update(self, name: str, expression: str, condition: str, names: dict[str, str], values: Item) -> int | None:
        try:
            item = self._side_items.update(name, expression, names, values, condition)
        except ConditionalCheckFailedException:
            return None
        return int(item["end"]["N"])
