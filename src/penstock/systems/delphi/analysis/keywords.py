"""Words of comments, and keywords: what a group of comments says more than the others do.

Words are of any script, by their stems, without those that say nothing of a topic. Han, Kana and Thai are written
without blanks: there, every two neighbouring letters are a word.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Final

_UNSPACED: Final = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_LEAST_STEM: Final = 4

STOP_WORDS: Final = frozenset(files(__package__).joinpath("stop_words.txt").read_text("utf-8").split())
"""English words that any comment may have, whatever it is about; and words of opinion, which are about having one."""

_HAN_STOP: Final = re.compile(
    "覺得|應該|可以|因為|所以|如果|但是|而且|或者|就是|不是|沒有|已經|還是|什麼|這個|那個|我們|他們|自己|目前|現在|這樣|希望|需要|必須|比較|認為|"
    "[的了是在我有和就不人都一個上也很到說要去你會著沒看好這那與及或而且但吧嗎呢為他她它其並被讓把對於由從此之應該得]"
)
"""Chinese words of the same kind, the longer ones first, and single letters that hold sentences together."""


def words(text: str) -> list[str]:
    """As they are written, in lower case, without stop words."""
    return [word for run in runs(text) for word in run]


def runs(text: str) -> list[list[str]]:
    """The same, in runs that no stop word and no punctuation interrupts."""
    found: list[list[str]] = [[]]
    text = text.casefold().replace("’", "'")
    end = 0
    for match in _word().finditer(text):
        if text[end : match.start()].strip():
            found.append([])
        end = match.end()
        some = _telling(match.group())
        if some:
            found[-1] += some
        else:
            found.append([])
    return [run for run in found if run]


def is_unspaced(word: str) -> bool:
    return _UNSPACED.fullmatch(word) is not None


def unspaced_runs(text: str) -> list[str]:
    """Runs of letters of a script without blanks, cut at the letters that only hold sentences together."""
    return [part for run in _UNSPACED.findall(text) for part in _HAN_STOP.split(run) if len(part) > 1]


@cache
def _word() -> re.Pattern[str]:
    """Letters and digits with the marks that belong to them: vowels of many scripts are marks to Unicode."""
    letters = map(chr, range(0x0300, 0xFE30))
    marks = "".join(letter for letter in letters if unicodedata.category(letter) in ("Mn", "Mc"))
    letter = rf"(?:[^\W_][{marks}]*)"
    return re.compile(rf"{letter}+(?:['’\-]{letter}+)*")


def _telling(word: str) -> list[str]:
    """The word, or the words that it is made of; none if it says nothing of a topic."""
    if not _UNSPACED.search(word):
        return [word.removesuffix("'s")] if _tells(word) else []
    pairs = [run[at : at + 2] for run in unspaced_runs(word) for at in range(len(run) - 1)]
    return pairs + [rest for rest in _UNSPACED.split(word) if rest and _tells(rest)]


def _tells(word: str) -> bool:
    return len(word) > 1 and word not in STOP_WORDS and word.removesuffix("'s") not in STOP_WORDS and not word.isdigit()


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The same for the forms of most English words; other words are hardly touched.

    It need not be a word: it only has to be equal for equal things.
    """
    if not word.isascii():
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) + len(instead) >= _LEAST_STEM:
            word = word[: len(word) - len(ending)] + instead
            break
    if len(word) > _LEAST_STEM and word[-1] == word[-2] and word[-1] not in "aeiouls":
        return word[:-1]
    return word[:-1] if len(word) > _LEAST_STEM and word.endswith("e") else word


_ENDINGS: Final = (
    ("ational", "ate"),
    ("fulness", "ful"),
    ("iveness", "ive"),
    ("ations", "ate"),
    ("ation", "ate"),
    ("ities", "ity"),
    ("ments", "ment"),
    ("ings", ""),
    ("sses", "ss"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("ying", "y"),
    ("ing", ""),
    ("ies", "y"),
    ("ied", "y"),
    ("ers", "er"),
    ("ed", ""),
    ("ly", ""),
    ("us", "us"),
    ("ss", "ss"),
    ("is", "is"),
    ("s", ""),
)
"""The first that fits is replaced, so that longer ones stand before those that they end with."""


def stems(text: str) -> list[str]:
    return [stem(word) for word in words(text)]


def terms(text: str) -> list[str]:
    """Stems, and each two that follow each other."""
    found = stems(text)
    return found + [f"{first} {second}" for first, second in pairwise(found)]


def spellings(texts: Iterable[str]) -> dict[str, str]:
    """How each stem is written most often: what a reader should be shown. The shorter one where it is even."""
    seen: dict[str, Counter[str]] = {}
    for text in texts:
        for word in words(text):
            seen.setdefault(stem(word), Counter())[word] += 1
    return {one: min(counts, key=lambda word: (-counts[word], len(word), word)) for one, counts in seen.items()}


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
        self._terms = [self._terms_in(text) for text in texts]
        self._everywhere = Counter(term for terms in self._terms for term in terms)
        self._phrases: dict[str, Counter[str]] = {}
        for text in texts:
            for term, written in _phrases(text):
                self._phrases.setdefault(term, Counter())[written] += 1

    @staticmethod
    def _terms_in(text: str) -> frozenset[str]:
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
            Keyword(self.spelling(term), term, round(scored[term], _DIGITS), round(counts[term] / len(rows), _DIGITS))
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

    def spelling(self, term: str) -> str:
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
    for run in unspaced_runs(text):
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
        return shorter in longer or _are_chained(shorter, longer)
    return bool(set(term.split()) & set(other.split()))


def _are_chained(first: str, second: str) -> bool:
    """Neighbouring pieces of one word: 計程 and 程車."""
    return any(first.endswith(second[:size]) or first.startswith(second[-size:]) for size in range(1, len(first)))
