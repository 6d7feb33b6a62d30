"""What a group of comments says more than the others do: its words, with scores, and its phrases."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from penstock.systems.delphi.words import is_unspaced, runs, spellings, stem, unspaced, words

TOP_WORDS: Final = 10
_LEAST_SHARE: Final = 0.08
"""A word of fewer of a group's comments does not stand for the group, however rare it is elsewhere."""
_TOGETHER: Final = 0.5
"""Words that stand together in so much of their rarer one's comments are one phrase."""
_PHRASE_BONUS: Final = 1.05
_LONGEST_RUN: Final = 6
_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class Keyword:
    text: str
    """As readers write it."""
    term: str
    """Its stems."""
    score: float
    share: float
    """Of the group's comments that have it."""


class Vocabulary:
    """The words of all comments, by stems; counted once, for every group of every layer."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._spelt = spellings(texts)
        self._terms = [self._found(text) for text in texts]
        self._everywhere = Counter(term for terms in self._terms for term in terms)
        self._phrases: dict[str, Counter[str]] = {}
        for text in texts:
            for term, written in _phrases(text):
                self._phrases.setdefault(term, Counter())[written] += 1

    @staticmethod
    def _found(text: str) -> frozenset[str]:
        return frozenset(stem(word) for word in words(text)) | frozenset(term for term, _ in _phrases(text))

    def keywords(self, rows: Sequence[int], most: int = TOP_WORDS) -> tuple[Keyword, ...]:
        """The words and phrases of these comments that are theirs more than the others', the best first."""
        counts = Counter(term for row in rows for term in self._terms[row])
        scored = {term: self._score(term, count, len(rows)) for term, count in counts.items()}
        # From parts to wholes, and not in the order of a set, which is another in every process.
        for term in sorted((term for term in scored if scored[term] > 0), key=lambda term: (len(term), term)):
            parts = [part for part in _parts(term) if counts[term] >= _TOGETHER * counts.get(part, math.inf)]
            whole = [scored[part] for part in parts]
            if whole:
                scored[term] = max(scored[term], *whole) * _PHRASE_BONUS
        ranked = sorted((term for term in scored if scored[term] > 0), key=lambda term: (-scored[term], term))
        kept: list[str] = []
        for term in ranked:
            if len(kept) == most:
                break
            if not any(_overlap(term, other) for other in kept):
                kept.append(term)
        return tuple(
            Keyword(self.written(term), term, round(scored[term], _DIGITS), round(counts[term] / len(rows), _DIGITS))
            for term in kept
        )

    def _score(self, term: str, count: int, size: int) -> float:
        """How often here, times how much more often than everywhere. One mention is an accident."""
        share = count / size
        if (count < 2 and size > 3) or share < _LEAST_SHARE:
            return 0.0
        everywhere = (self._everywhere[term] + 1) / (len(self._terms) + 2)
        return share * math.log(1 + share / everywhere)

    def coverage(self, row: int, keywords: Sequence[Keyword]) -> float:
        """How much of what the keywords say this comment says: 0 to 1."""
        total = sum(keyword.score for keyword in keywords)
        return sum(keyword.score for keyword in keywords if keyword.term in self._terms[row]) / total if total else 0.0

    def written(self, term: str) -> str:
        """As readers write it."""
        if term in self._phrases:
            seen = self._phrases[term]
            return min(seen, key=lambda text: (-seen[text], len(text), text))
        return self._spelt.get(term, term)


def _phrases(text: str) -> list[tuple[str, str]]:
    """Two words that follow each other in the text itself, by stems and as written; longer runs of unspaced script."""
    found: list[tuple[str, str]] = []
    for phrase in runs(text):
        for first, second in pairwise(phrase):
            if is_unspaced(first) and is_unspaced(second):
                continue
            if stem(first) != stem(second):
                found.append((f"{stem(first)} {stem(second)}", f"{first} {second}"))
    for run in unspaced(text):
        for length in range(3, _LONGEST_RUN + 1):
            found += [(run[at : at + length],) * 2 for at in range(len(run) - length + 1)]
    return found


def _parts(term: str) -> list[str]:
    """The words of a phrase; the ends of a run of unspaced script."""
    if is_unspaced(term):
        return [term[:-1], term[1:]] if len(term) > 2 else []
    return term.split() if " " in term else []


def _overlap(term: str, other: str) -> bool:
    """Whether one says the other again: a phrase beside its own words, a piece of a longer word."""
    if is_unspaced(term) or is_unspaced(other):
        shorter, longer = sorted((term, other), key=len)
        return shorter in longer or _chained(shorter, longer)
    return bool(set(term.split()) & set(other.split()))


def _chained(first: str, second: str) -> bool:
    """Neighbouring pieces of one word: 計程 and 程車."""
    return any(first.endswith(second[:size]) or first.startswith(second[-size:]) for size in range(1, len(first)))
