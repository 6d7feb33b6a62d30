"""Optimistic concurrency: read, decide, write on the condition that nothing has changed; else read and decide again.

    contention = Contention(job.id)
    while True:
        changed = change(job)
        try:
            write(changed, if_unchanged=job)
            return changed
        except Conflict as conflict:
            job = conflict.current
            contention.wait()

1. What is written was decided on what is there: the write's condition says so, not the time that has passed.
2. A refused write says what is there now, so that its caller can decide again without a further read.
3. Nobody holds a lock. Writers that meet again and again wait for a random moment, so that each has its turn; there is
   an end to it.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import PenstockError

MOST_ATTEMPTS: Final = 500
_AT_ONCE: Final = 3
"""Attempts that follow each other at once: most writers meet only one other."""

_WAIT_SECONDS: Final = 0.0005
"""By so much the longest wait grows with each attempt."""

_LONGEST_WAIT_SECONDS: Final = 0.1


class Conflict(PenstockError):
    """Somebody else has written it meanwhile: `current` is what it is now, None if it is gone."""

    def __init__(self, what: str, current: Any) -> None:
        super().__init__(f"{what} has been changed by somebody else. Read it again.")
        self.current = current


class Contended(PenstockError):
    """Others wrote it first, again and again."""

    retryable = True

    def __init__(self, what: str, attempts: int) -> None:
        super().__init__(f"{what}: others wrote it first, {attempts} times. Try again.")
        self.what = what


@dataclass(slots=True)
class Contention:
    """Other writers of the same thing, as one that was slower meets them."""

    what: str
    most_attempts: int = MOST_ATTEMPTS
    refused: int = 0

    def wait(self) -> None:
        """Lets others write, before the next attempt (3). Raises Contended when there have been enough."""
        self.refused += 1
        if self.refused >= self.most_attempts:
            raise Contended(self.what, self.refused)
        if self.refused > _AT_ONCE:
            time.sleep(random.random() * min(_LONGEST_WAIT_SECONDS, _WAIT_SECONDS * self.refused))
