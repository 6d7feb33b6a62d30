"""What must hold of leases, whoever held them: checked from what their holders wrote down.

1. No two grants of a job have one token, and a grant that began after another had ended has a larger one.
2. No write under a token is acknowledged if it began after a grant of a larger token had ended.
3. A grant follows another's lease only after that has run out, was given back, or its holder's process had ended.
4. No two writes of a job have one number, and a write that began after another had ended has a larger one.

Times are nanoseconds of a clock that all holders share. What was refused, or whose answer was lost, is no fact; only a
return counts from its beginning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

What = Literal["grant", "write", "return", "end"]


@dataclass(frozen=True, slots=True)
class Fact:
    """A grant of a lease, a write under it (which renews it), its return, or the end of its holder's process.

    An end is one of all jobs that `who` held: it began before the process was killed, and ended when it was gone.
    """

    what: What
    job: str
    token: int
    who: str
    began: int
    ended: int
    number: int = 0
    """Of a write."""

    def __str__(self) -> str:
        number = f" {self.number}" if self.what == "write" else ""
        when = f"{self.began / 1e6:.3f} – {self.ended / 1e6:.3f} ms"
        return f"{self.who} {self.what}{number} with token {self.token} ({when})"


def broken_lease_rules(facts: Iterable[Fact], lease_seconds: float) -> list[str]:
    """The rules that are broken, as sentences; none for sound leases."""
    by_job: dict[str, list[Fact]] = defaultdict(list)
    ends: dict[str, int] = {}
    for fact in facts:
        if fact.what == "end":
            ends[fact.who] = fact.began
        else:
            by_job[fact.job].append(fact)
    return [f"{job}: {text}" for job, some in by_job.items() for text in _broken(some, ends, lease_seconds)]


def _broken(facts: Sequence[Fact], ends: Mapping[str, int], lease_seconds: float) -> Iterator[str]:
    grants = sorted((one for one in facts if one.what == "grant"), key=lambda one: one.token)
    writes = sorted((one for one in facts if one.what == "write"), key=lambda one: one.number)
    yield from _disordered(grants, [one.token for one in grants], "one token was granted twice (1)")
    yield from _disordered(writes, [one.number for one in writes], "one number was written twice (4)")
    yield from _unfenced(grants, writes)
    yield from _too_early(grants, facts, ends, round(lease_seconds * 1e9))


def _disordered(facts: Sequence[Fact], numbers: Sequence[int], twice: str) -> Iterator[str]:
    """`facts` stand in the order of their numbers, and must have happened in it."""
    for (one, number), (two, next_number) in pairwise(zip(facts, numbers, strict=True)):
        if number == next_number:
            yield f"{twice}: {one}; {two}"
        elif two.ended < one.began:
            yield f"the larger of two numbers came first: {two}; {one}"


def _unfenced(grants: Sequence[Fact], writes: Sequence[Fact]) -> Iterator[str]:
    for write in writes:
        fence = next((one for one in grants if one.token > write.token and one.ended < write.began), None)
        if fence is not None:
            yield f"a write was not fenced off (2): {write}, after {fence}"


def _too_early(grants: Sequence[Fact], facts: Sequence[Fact], ends: Mapping[str, int], lease_ns: int) -> Iterator[str]:
    for held, taken in pairwise(grants):
        of_held = [one for one in facts if one.token == held.token]
        if any(one.what == "return" for one in of_held) or taken.token != held.token + 1:
            continue
        if held.who in ends and ends[held.who] < taken.ended:
            continue  # its holder may have ended by then
        renewed = max((one.began for one in of_held if one.ended < taken.began), default=held.began)
        if taken.ended < renewed + lease_ns:
            yield f"a lease was taken before it ran out (3): {taken}, after {held}, renewed at {renewed / 1e6:.3f} ms"
