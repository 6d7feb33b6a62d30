"""The words of a comment: in any script, by their stems, without those that say nothing of a topic.

Han, Kana and Thai are written without blanks: there, every two neighbouring letters are a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
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


def unspaced(text: str) -> list[str]:
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
    pairs = [run[at : at + 2] for run in unspaced(word) for at in range(len(run) - 1)]
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
