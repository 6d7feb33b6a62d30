"""The exact score of a vector, as DynamoDB defines it: COSINE 1 - cos, DOT_PRODUCT a·b, EUCLIDEAN the straight line.

1. Products of two numbers of 32 bits are exact in 64, and their sum is rounded once (`fsum`): a score depends on
   nothing but the two vectors, and is rounded to 32 bits at the end.
2. The nearest come first: small scores, or for DOT_PRODUCT large ones. Equal scores are in the order of their keys.
3. A vector of zeros has no direction: its cosine with any other is taken to be 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from operator import mul, sub
from typing import Final

from penstock.engine.vectors.matrix import COSINE, DOT_PRODUCT
from penstock.wire.float32 import rounded, to_floats

_MOST_KNOWN: Final = 1000


def scorer(function: str, query: bytes) -> Callable[[bytes], float]:
    """Gives the score of a vector for this query. Equal vectors, of which there may be many, are looked at once."""
    wanted = to_floats(query)
    length = _length(wanted)
    known: dict[bytes, float] = {}

    def score(vector: bytes) -> float:
        found = known.get(vector)
        if found is None:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            found = known[vector] = rounded(_score(function, to_floats(vector), wanted, length)) + 0.0  # no -0.0
        return found

    return score


def _score(function: str, vector: Sequence[float], query: Sequence[float], length: float) -> float:
    if function == DOT_PRODUCT:
        return math.fsum(map(mul, vector, query))
    if function == COSINE:
        own = _length(vector)
        cosine = math.fsum(map(mul, vector, query)) / own / length if own and length else 0.0
        return 1.0 - max(-1.0, min(cosine, 1.0))
    differences = [*map(sub, vector, query)]
    return math.sqrt(math.fsum(map(mul, differences, differences)))


def _length(vector: Sequence[float]) -> float:
    return math.sqrt(math.fsum(map(mul, vector, vector)))


def sign_of(function: str) -> float:
    """What makes the scores of the nearest the smallest."""
    return -1.0 if function == DOT_PRODUCT else 1.0


def in_order(function: str, scores: Iterable[tuple[float, bytes]]) -> list[tuple[float, bytes]]:
    """Scores and keys, the nearest first (2)."""
    sign = sign_of(function)
    return sorted(scores, key=lambda one: (sign * one[0], one[1]))
