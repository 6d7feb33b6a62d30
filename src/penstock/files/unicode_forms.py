"""Unicode's normal forms, in time that grows as the text does.

`unicodedata.normalize` sorts the marks that stand on one letter by going back one by one: a letter with 160,000
accents takes 20 seconds. Unicode's answer is its Stream-Safe Text Format (UAX #15): after 30 marks in a row comes a
joiner, which is seen by nobody and parts them. Nothing that anybody writes has as many; such a text stays as it is.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal

MOST_MARKS: Final = 30
_JOINER: Final = "\u034f"


def normalize(form: Literal["NFC", "NFKC"], text: str) -> str:
    """As `unicodedata.normalize`, of the text's stream-safe form."""
    return text if text.isascii() else unicodedata.normalize(form, _stream_safe(text))


def _stream_safe(text: str) -> str:
    cuts = [0]
    marks = 0
    for at, character in enumerate(text):
        if not _is_mark(character):
            marks = 0
        elif marks == MOST_MARKS:
            cuts.append(at)
            marks = 1
        else:
            marks += 1
    if len(cuts) == 1:
        return text
    return _JOINER.join(text[start:end] for start, end in pairwise([*cuts, len(text)]))


@lru_cache(maxsize=4096)
def _is_mark(character: str) -> bool:
    """Whether it is moved when marks are sorted, once it is decomposed."""
    return unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) > 0
