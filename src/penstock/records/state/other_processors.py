"""Other processors at work on the same records: seen by their leases, and kept out of their way.

Processors that read the same page at the same time want the same records, and all claims but one of each are in vain.
Those who see each other share a page instead: a hash of each record's key says whose it is. Nothing depends on it that
all agree, or are right about who is there: what is left to another is looked at again in the next pass, and a claim is
decided by its condition alone.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

import orjson

from penstock.clock import Clock
from penstock.records.source.selection import Found
from penstock.records.state.record_state import NotOurs, Standing
from penstock.wire.values import AttributeValue

_NEAR_PAGES: Final = 2
"""How many pages ago a neighbour was last met. One that is further away is in nobody's way."""

_MOST: Final = 1_000  # that are remembered


class Neighbours:
    """Those of one run. What they hold is told by the feeder from its pages, and by claims that were in vain."""

    def __init__(self, owner: str, clock: Clock) -> None:
        self._owner = owner
        self._clock = clock
        self._page = 0
        self._met: dict[str, int] = {}

    def met(self, standing: Standing) -> None:
        """Another holds a record here. One that has neither claimed nor renewed for half a lease may be dead."""
        is_alive = self._clock.now() < standing.until - standing.lease / 2
        if standing.owner != self._owner and is_alive and len(self._met) < _MOST:
            self._met[standing.owner] = self._page

    def ours(self, page: list[Found], number: int) -> list[Found]:
        """What is ours of a page, in the pass of this number."""
        self._page += 1
        free = [found for found in page if found.standing is None or self._is_free(found.standing, number)]
        near = self._near()
        if not near:
            return free
        near.append(self._owner)
        near.sort()
        ours, salt = near.index(self._owner), number.to_bytes(4, "big")
        return [found for found in free if crc32(salt + orjson.dumps(found.key)) % len(near) == ours]

    def _is_free(self, value: AttributeValue, number: int) -> bool:
        """Whether nobody holds it. What failed a moment ago is not free either, in passes that follow at once: if it
        failed here, it is scheduled already.
        """
        try:
            standing = Standing.of(value)
        except NotOurs:
            return True  # whoever claims it says so
        now = self._clock.now()
        if standing.owner:
            self.met(standing)
            return now >= standing.takeable_at
        return not number or now >= standing.due

    def _near(self) -> list[str]:
        for owner, page in list(self._met.items()):
            if page < self._page - _NEAR_PAGES:
                self._met.pop(owner, None)
        return list(self._met)
