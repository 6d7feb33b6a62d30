"""Is there an order of these operations, one at a time, that explains every answer?

A history says who called what, when the call began, when it ended, and with what result. It is linearizable if each
operation can be given one moment between its beginning and its end at which all of it took effect, so that every
result is what a single-threaded database would have given.

1. An operation that never ended (a timeout, a killed client) took effect at any moment after its beginning, or never.
   One that is known to have had no effect (a throttled write) does not belong into the history.
2. Two operations of which one ended in the nanosecond in which the other began count as concurrent.
3. Operations that touch no common key, directly or through others, are checked apart.
4. The search is exhaustive within `steps`; past them the verdict is Undecided, never a guess.
5. A Violation names operations of which nothing can be dropped: the others may have had any outcome at all, and there
   is still no order.

The search is Wing and Gong's with Lowe's memory of the standings that were met, done at the end of each operation: the
standings are what the state can be, and which open operations it contains.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from penstock.testing.histories import C, Linearizable, Model, Operation, R, Undecided, Violation
from penstock.testing.linearizability_search import Search

__all__ = ["Linearizable", "Operation", "Undecided", "Verdict", "Violation", "check", "partitions"]

DEFAULT_STEPS: Final = 20_000_000

Verdict = Linearizable | Undecided | Violation[Any, Any]


def check(
    history: Iterable[Operation[C, R]],
    model: Callable[[tuple[str, ...]], Model[C, R]],
    *,
    steps: int = DEFAULT_STEPS,
) -> Verdict:
    """Linearizable, or the first Violation that is found, or else Undecided. `steps` are for the whole history."""
    undecided: Undecided | None = None
    operations, spent = 0, 0
    for keys, part in partitions(history):
        verdict = Search(keys, part, model(keys), steps - spent).verdict()
        match verdict:
            case Violation():
                return verdict
            case Undecided():
                undecided = undecided or verdict
        operations += len(part)
        spent += verdict.steps
    return undecided or Linearizable(operations, spent)


def partitions(history: Iterable[Operation[C, R]]) -> Iterator[tuple[tuple[str, ...], list[Operation[C, R]]]]:
    """The history apart (3), each part with its keys, in the order of their first operation."""
    history = sorted(history, key=lambda one: one.began)
    leader: dict[str, str] = {}

    def find(key: str) -> str:
        while leader.setdefault(key, key) != key:
            leader[key] = key = leader[leader[key]]
        return key

    for one in history:
        first, *rest = one.call.keys
        for key in rest:
            leader[find(key)] = find(first)
        find(first)
    parts: dict[str, list[Operation[C, R]]] = defaultdict(list)
    for one in history:
        parts[find(one.call.keys[0])].append(one)
    for part in parts.values():
        yield tuple(sorted({key for one in part for key in one.call.keys})), part
