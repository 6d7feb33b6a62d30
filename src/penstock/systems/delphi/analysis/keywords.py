"""Keywords: what a group of comments says more than the others do.

1. A keyword is a word or a phrase of the comments themselves, shown as it is written most often there.
2. It is no function word of the language of its comment, nor of the conversation's main language.
3. Of two keywords of a group, neither says the other again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from penstock.systems.delphi.analysis.languages import Run, is_unspaced, language

TOP_WORDS: Final = 10
_LEAST_SHARE: Final = 0.08
"""A word of fewer of a group's comments does not stand for the group, however rare it is elsewhere."""
_TOGETHER: Final = 0.5
"""Words that stand together in so much of their rarer one's comments are one phrase."""
_PHRASE_BONUS: Final = 1.05
_CAPITAL_NOUNS: Final = frozenset(("de", "lb"))
"""Languages that write nouns with a capital, wherever they stand."""
_LONGEST_RUN: Final = 6
_EVERYWHERE: Final = 0.3
"""A word of so many comments of a language whose function words are not known is one of them."""
_DIGITS: Final = 6


def text_runs(texts: Sequence[str], languages: Sequence[str]) -> list[list[Run]]:
    """The words of each text, read in its language, in runs that nothing interrupts."""
    return [language(code).runs(text) for text, code in zip(texts, languages, strict=True)]


def wordless_rows(texts: Sequence[str], languages: Sequence[str]) -> frozenset[int]:
    """Texts that have no word that says something."""
    return frozenset(row for row, runs in enumerate(text_runs(texts, languages)) if not runs)


def terms(runs: Iterable[Run]) -> list[str]:
    """Stems, and each two that follow each other."""
    found = [word.stem for run in runs for word in run]
    return found + [f"{first} {second}" for first, second in pairwise(found)]


@dataclass(frozen=True, slots=True)
class Keyword:
    text: str
    """As readers write it."""
    term: str
    """Its stems."""
    score: float
    share: float
    """Of the group's comments that have it."""
    is_noun: bool = True
    """Unless it is known not to be one."""


class Vocabulary:
    """The words of all comments, by stems; counted once, for every group of every layer."""

    def __init__(self, texts: Sequence[str], languages: Sequence[str]) -> None:
        self._written: dict[str, Counter[str]] = {}
        self._terms: list[frozenset[str]] = []
        self._capitals: dict[str, list[bool]] = {}
        for text, code, runs in zip(texts, languages, text_runs(texts, languages), strict=True):
            if code in _CAPITAL_NOUNS:
                self._count_capitals(text, runs)
            found = [(word.stem, word.written) for run in runs for word in run] + _phrases(runs)
            for term, written in found:
                self._written.setdefault(term, Counter())[written] += 1
            self._terms.append(frozenset(term for term, _ in found))
        self._everywhere = Counter(term for terms in self._terms for term in terms)
        self._mains = [language(code) for code, count in Counter(languages).items() if count * 2 >= len(languages)]

    def terms_of(self, row: int) -> frozenset[str]:
        """The words and phrases of a comment."""
        return self._terms[row]

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
            if not any(_overlap(term, other) for other in kept) and not self._says_nothing(term):
                kept.append(term)
        return tuple(
            Keyword(
                self.spelling(term),
                term,
                round(scored[term], _DIGITS),
                round(counts[term] / len(rows), _DIGITS),
                self._is_noun(term),
            )
            for term in kept
        )

    def _count_capitals(self, text: str, runs: Iterable[Run]) -> None:
        """The first word of a text has one, whatever it is."""
        first = text.lstrip()
        for word in (word for run in runs for word in run):
            if not first.startswith(word.written):
                self._capitals.setdefault(word.stem, []).append(word.written[0].isupper())

    def _is_noun(self, term: str) -> bool:
        """Whether it is mostly written as one, or ends with one. What is only seen at the beginning may be one."""
        capitals = self._capitals.get(term.split()[-1], ())
        return 2 * sum(capitals) >= len(capitals)

    def _score(self, term: str, count: int, size: int) -> float:
        """How often here, times how much more often than everywhere. One mention is an accident."""
        share = count / size
        if (count < 2 and size > 3) or share < _LEAST_SHARE:
            return 0.0
        everywhere = (self._everywhere[term] + 1) / (len(self._terms) + 2)
        return share * math.log(1 + share / everywhere)

    def _says_nothing(self, term: str) -> bool:
        """A comment in another language than it seems to be in has function words of the main one."""
        words = self.spelling(term).split()
        if any(all(map(main.is_function_word, words)) for main in self._mains if main.function_words):
            return True
        is_listed = all(main.function_words for main in self._mains)
        return (
            not is_listed
            and len(self._terms) > 1 / _EVERYWHERE
            and self._everywhere[term] > _EVERYWHERE * len(self._terms)
        )

    def coverage(self, row: int, keywords: Sequence[Keyword]) -> float:
        """How much of what the keywords say this comment says: 0 to 1."""
        total = sum(keyword.score for keyword in keywords)
        return sum(keyword.score for keyword in keywords if keyword.term in self._terms[row]) / total if total else 0.0

    def spelling(self, term: str) -> str:
        """As it is written most often; the shorter one where it is even."""
        seen = self._written.get(term, Counter((term,)))
        return min(seen, key=lambda text: (-seen[text], len(text), text))


def _phrases(runs: Iterable[Run]) -> list[tuple[str, str]]:
    """Two words that follow each other in the text itself, by stems and as written; longer runs of unspaced script."""
    found: list[tuple[str, str]] = []
    for run in runs:
        for first, second in pairwise(run):
            if first.stem == second.stem:
                continue
            if is_unspaced(first.written) and is_unspaced(second.written):
                if not _are_pairs(first.written, second.written):
                    found.append((f"{first.stem} {second.stem}", f"{first.written}{second.written}"))
            else:
                found.append((f"{first.stem} {second.stem}", f"{first.written} {second.written}"))
        found += _long_pieces(run)
    return found


def _long_pieces(run: Run) -> list[tuple[str, str]]:
    """Of a script that is not cut into words: everything from three letters on."""
    letters = ""
    found: list[tuple[str, str]] = []
    for word in run:
        letters = letters + word.written[-1] if letters and _are_pairs(letters[-2:], word.written) else word.written
        for length in range(3, min(_LONGEST_RUN, len(letters)) + 1):
            if _is_uncut(letters):
                found.append((letters[-length:],) * 2)
    return found


def _is_uncut(text: str) -> bool:
    """Thai, Lao, Burmese and Khmer: no dictionary cuts them here."""
    return all("\u0e00" <= letter <= "\u17ff" for letter in text)


def _are_pairs(first: str, second: str) -> bool:
    """Two neighbouring pairs of letters of one uncut run."""
    return len(second) == 2 and _is_uncut(first + second) and first[-1] == second[0]


def _parts(term: str) -> list[str]:
    """The words of a phrase; the ends of an uncut run; what a Chinese word begins with."""
    if _is_uncut(term):
        return [term[:-1], term[1:]] if len(term) > 2 else []
    if " " in term:
        return term.split()
    return [term[:2]] if len(term) > 2 and is_unspaced(term) else []


def _overlap(term: str, other: str) -> bool:
    """Whether one says the other again: a phrase beside its own words, a piece of a longer word."""
    if is_unspaced(term.replace(" ", "")) and is_unspaced(other.replace(" ", "")):
        shorter, longer = sorted((term.replace(" ", ""), other.replace(" ", "")), key=len)
        return shorter in longer or (_is_uncut(shorter + longer) and _are_chained(shorter, longer))
    return any(_are_forms(one, another) for one in term.split() for another in other.split())


def _are_forms(one: str, another: str) -> bool:
    """The same stem, or nearly: stemmers leave bus and buses apart."""
    shorter, longer = sorted((one, another), key=len)
    return one == another or (len(shorter) > 2 and longer.startswith(shorter) and len(longer) - len(shorter) <= 2)


def _are_chained(first: str, second: str) -> bool:
    """Neighbouring pieces of one word."""
    return any(first.endswith(second[:size]) or first.startswith(second[-size:]) for size in range(1, len(first)))
