"""Languages: which one a comment is in, and what of it says something.

1. A conversation has a main language. It has another one only if several comments are certainly in it; then comments
   that are likely in it are, too. Each script has a main language of its own.
2. Function words (stopwordsiso, and words of opinion from stop_words.txt) are no words of a topic, in any language.
3. Chinese and Japanese are cut into words. Other scripts without blanks (Thai, Lao, Khmer, Burmese) are cut at function
   words only: there, two neighbouring letters are a word.
4. A stem is equal for the forms of a word. It need not be a word, and is never shown.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from penstock.errors import PenstockError
from penstock.systems.delphi.analysis.libraries import library

AUTO: Final = "auto"
UNKNOWN: Final = "zxx"
"""Of a text that is in no language: emoji, numbers. It has no function words and no stems."""
_SAMPLE_CHARACTERS: Final = 60_000
"""So much text tells the language of a conversation."""
_LEAST_LETTERS: Final = 25
_CERTAIN: Final = 0.99
_FEWEST_LETTERS: Final = 14
_LIKELY: Final = 0.9
"""Of shorter texts, and less certain ones, in a language that the conversation is known to have."""
_LEAST_COMMENTS: Final = 3
_LEAST_SHARE: Final = 0.02
_SHOWN: Final = 2
"""Function words that show a language."""
_HAN: Final = "HAN"
_JAPANESE: Final = "JAPANESE"
_KANA_SHARE: Final = 5
"""A text is Japanese if every fifth of its letters is Kana: Chinese has some の."""
_DENSE: Final = 3
""""Uber 的司机" is Chinese."""
_RELATIVES: Final = {
    "ary": "ar", "arz": "ar", "bs": "hr", "lzh": "zh", "nb": "no", "nn": "no", "sr": "hr", "wuu": "zh", "yue": "zh",
    "sdh": "ku", "pcm": "en",
}  # fmt: skip
"""Languages whose function words are those of another, nearly."""
_STEMMERS: Final = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish",
    "fr": "french", "ga": "irish", "hi": "hindi", "hr": "serbian", "hu": "hungarian", "hy": "armenian",
    "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch", "no": "norwegian",
    "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian", "st": "sesotho", "sv": "swedish",
    "ta": "tamil", "tr": "turkish",
}  # fmt: skip
_ELIDES: Final = frozenset(("ca", "fr", "it"))
_PREFIXES: Final = {"ar": "وفبلك", "he": "והבלכמש"}
"""Letters that are written together with the next word: and, in, to, the."""
_JOSA: Final = re.compile(
    "(?:에서는|에서도|으로는|에게서|이라는|에서|에게|으로|까지|부터|처럼|보다|마다|이나|라는|은|는|이|가|을|를|의|에|로|와|과|도|만)$"
)
"""Particles that Korean writes behind a noun."""
_TOPICS_OF: Final = "topics-"
"""Sections of stop_words.txt: words that stopwordsiso has as function words, and that comments are about."""

_UNSPACED: Final = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)
_LINK: Final = re.compile(r"https?://\S+|www\.\S+|(?<!\S)[^\s@]+@[^\s@]+")
_VOWEL_SIGNS: Final = re.compile("[\u0640\u064b-\u0652\u0670]")
"""Arabic is written with them or without."""
_HIRAGANA: Final = re.compile(r"[\u3040-\u309f]+")
_KANJI: Final = re.compile(r"[\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_HIRAGANA_OF: Final = {letter: letter - 0x60 for letter in range(0x30A1, 0x30F7)}
"""Katakana: people write ゴミ and ごみ."""
_MOST_JOINED: Final = 4
_HEAD: Final = 2
"""Letters of the word that a longer Chinese one begins with."""


class Word(NamedTuple):
    written: str
    stem: str


Run = list[Word]
"""Words that no function word and no punctuation interrupts."""


@dataclass(frozen=True, slots=True)
class Language:
    """How texts of a language are read."""

    code: str
    function_words: frozenset[str]
    several: re.Pattern[str] | None
    """Function words of more than one word."""
    stem: Callable[[str], str]

    def runs(self, text: str) -> list[Run]:
        """The words of a text that say something, in runs."""
        plain = _LINK.sub(" . ", text.replace("’", "'").replace("\u00ad", ""))
        plain = _VOWEL_SIGNS.sub("", plain)
        if self.several is not None:
            plain = self.several.sub(" . ", plain)
        found: list[Run] = [[]]
        end = 0
        for match in _word_pattern().finditer(plain):
            if plain[end : match.start()].strip():
                found.append([])
            end = match.end()
            for word in self._pieces(match.group()):
                if word is None:
                    found.append([])
                else:
                    found[-1].append(word)
        return [run for run in found if run]

    def is_function_word(self, word: str) -> bool:
        """Also one of a single letter, a number, or one made of function words."""
        word = word.lower().removesuffix("'s")
        if word in self.function_words or word.isdigit() or (len(word) < 2 and not _KANJI.fullmatch(word)):
            return True
        if word[0] in _PREFIXES.get(self.code, "") and word[1:] in self.function_words:
            return True
        parts = re.split(r"['\-]", word)
        return len(parts) > 1 and all(len(part) < 2 or part.isdigit() or part in self.function_words for part in parts)

    def _pieces(self, word: str) -> Iterator[Word | None]:
        """The words of a run of letters; None where a function word stands."""
        if not _UNSPACED.search(word):
            for part in word.split("'") if self.code in _ELIDES else [word]:
                yield None if self.is_function_word(part) else self._word(part)
            return
        end = 0
        for match in _UNSPACED.finditer(word):
            yield from self._spaced(word[end : match.start()])
            yield from self._unspaced(match.group())
            end = match.end()
        yield from self._spaced(word[end:])

    def _spaced(self, part: str) -> Iterator[Word | None]:
        part = part.strip("'-")
        if part:
            yield None if self.is_function_word(part) else self._word(part)

    def _word(self, written: str) -> Word:
        written = re.sub(r"'s$", "", written, flags=re.IGNORECASE)
        if self.code == "ko":
            written = _korean_stem(written)
        return Word(written, self.stem(written.lower()))

    def _unspaced(self, run: str) -> Iterator[Word | None]:
        if _KANJI.search(run) or re.search(r"[\u3040-\u30ff]", run):
            is_japanese = self.code == "ja" or re.search(r"[\u3040-\u30ff]", run) is not None
            yield from _japanese(self, run) if is_japanese else _chinese(self, run)
            return
        for part in _cutter(self.code).split(run):
            for at in range(len(part) - 1):
                yield Word(part[at : at + 2], part[at : at + 2])
            yield None


def _chinese(language: Language, run: str) -> Iterator[Word | None]:
    """By jieba's dictionary, which knows the simplified letters: the traditional ones are looked up as those.

    Then come the words that longer ones begin with: who says 停车位, 停车场 and 停车费 speaks of 停车. It is only the
    beginnings: 慢性病 (chronic disease) does not speak of 性病.
    """
    simple = simplified(run)
    cut = library("rjieba").cut(simple, True)
    yield from _joined(language, run, simple, cut)
    at = 0
    for word in cut:
        if len(word) > _HEAD and not language.is_function_word(word):
            head = simple[at : at + _HEAD]
            if library("rjieba").has_word(head) and not language.is_function_word(head):
                yield None
                yield Word(run[at : at + _HEAD], head)
        at += len(word)


def _japanese(language: Language, run: str) -> Iterator[Word | None]:
    """A single Kanji belongs to the word before it. Hiragana holds sentences together, but for some nouns."""
    cut: list[str] = []
    nouns = topic_words("ja")
    for part in _segmenter().tokenize(run):
        before = part.removesuffix("の")
        if before != part and (before in nouns or _KANJI.match(before)):
            cut += (before, "の")
        elif cut and len(part) == 1 and _KANJI.fullmatch(part) and _KANJI.fullmatch(cut[-1]):
            cut[-1] += part
        else:
            cut.append(part)
    yield from _joined(language, run, run, cut)


def _joined(language: Language, written: str, plain: str, cut: Sequence[str]) -> Iterator[Word | None]:
    """The parts that are no function words, nor pieces of one that was cut too often."""
    at, place = 0, 0
    while place < len(cut):
        for count in range(min(_MOST_JOINED, len(cut) - place), 0, -1):
            together = "".join(cut[place : place + count])
            if together in language.function_words or (count == 1 and _says_nothing(language, together)):
                yield None
                break
        else:
            count, together = 1, cut[place]
            yield Word(written[at : at + len(together)], language.stem(together.lower()))
        at += len(together)
        place += count


def _says_nothing(language: Language, word: str) -> bool:
    return (
        (_HIRAGANA.fullmatch(word) is not None and word not in topic_words("ja"))
        or (len(word) == 1 and not (language.code == "ja" and _KANJI.fullmatch(word)))
        or language.is_function_word(word)
    )


@cache
def _segmenter() -> Any:
    return library("tinysegmenter").TinySegmenter()


@cache
def _converter() -> Any:
    return library("opencc").OpenCC("t2s")


@lru_cache(maxsize=16_384)
def _simple_letter(letter: str) -> str:
    found: str = _converter().convert(letter)
    return found if len(found) == 1 else letter


def simplified(text: str) -> str:
    """Chinese in simplified letters, letter by letter: every place in the text stays what it is."""
    return "".join(map(_simple_letter, text)) if _KANJI.search(text) else text


def is_unspaced(text: str) -> bool:
    """Whether words of this script follow each other without a blank."""
    return _UNSPACED.fullmatch(text) is not None


# ── the languages that there are ─────────────────────────────────────────────────────────────────


def language_codes() -> tuple[str, ...]:
    """Those whose function words are known."""
    return tuple(sorted(library("stopwordsiso").langs()))


def check_language(code: str) -> str:
    """Raises PenstockError for one whose function words are not known."""
    known = language_codes()
    if code != AUTO and code not in known:
        raise PenstockError(f"There is no language {code!r}: give {AUTO}, or one of {', '.join(known)}.")
    return code


@cache
def language(code: str) -> Language:
    """The language of a code. One that is not known has no function words."""
    listed = library("stopwordsiso").stopwords(code) if code in language_codes() else set()
    entries = {unicodedata.normalize("NFC", entry).lower().replace("’", "'").strip() for entry in listed}
    entries = {_VOWEL_SIGNS.sub("", entry) for entry in entries}
    entries |= _further().get(code, frozenset())
    entries -= topic_words(code)
    if code == "zh":
        entries |= {simplified(entry) for entry in entries}
    if code in _ELIDES:
        entries |= {part for entry in entries for part in entry.split("'")}
    single: set[str] = set()
    several: set[str] = set()
    for entry in entries:
        parts = _word_pattern().findall(entry)
        if len(parts) == 1:
            single.add(parts[0])
        elif len(parts) > 1:
            several.add(entry)
    pattern = "|".join(re.escape(entry) for entry in sorted(several, key=lambda entry: (-len(entry), entry)))
    together = re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE) if several else None
    return Language(code, frozenset(single), together, _stemmer(code))


@cache
def _further() -> dict[str, frozenset[str]]:
    """stop_words.txt: what any comment may say, whatever it is about; words of opinion above all."""
    found: dict[str, set[str]] = {}
    code = ""
    for word in files(__package__).joinpath("stop_words.txt").read_text("utf-8").split():
        if word.startswith("["):
            code = word.strip("[]")
        else:
            found.setdefault(code, set()).add(word)
    return {code: frozenset(words) for code, words in found.items()}


def topic_words(code: str) -> frozenset[str]:
    """Words that are listed as function words of a language, or look like them, and are none here."""
    return _further().get(_TOPICS_OF + code, frozenset())


def _stemmer(code: str) -> Callable[[str], str]:
    if code == "ja":
        return lambda word: word.lower().translate(_HIRAGANA_OF)
    if code not in _STEMMERS:
        return str.lower
    stemmer = library("snowballstemmer").stemmer(_STEMMERS[code])

    @lru_cache(maxsize=65_536)
    def stem(word: str) -> str:
        found: str = stemmer.stemWord(word)
        return found or word

    return stem


def _korean_stem(word: str) -> str:
    found = _JOSA.sub("", word)
    return found if len(found) > 1 else word


@cache
def _cutter(code: str) -> re.Pattern[str]:
    """Where a run of an unspaced script is cut: at its function words, the longer ones first."""
    words = [word for word in language(code).function_words if is_unspaced(word) and len(word) > 1]
    return re.compile("|".join(map(re.escape, sorted(words, key=lambda word: (-len(word), word)))) or r"(?!)")


@cache
def _word_pattern() -> re.Pattern[str]:
    """Letters and digits with the marks that belong to them: vowels of many scripts are marks to Unicode."""
    letters = map(chr, range(0x0300, 0xFE30))
    marks = "".join(letter for letter in letters if unicodedata.category(letter) in ("Mn", "Mc"))
    letter = rf"(?:[^\W_][{marks}]*)"
    return re.compile(rf"{letter}+(?:['\-\u200c\u05f3\u05f4]{letter}+)*")


# ── which one it is ──────────────────────────────────────────────────────────────────────────────


def detect_languages(texts: Sequence[str], given: str = AUTO) -> tuple[str, ...]:
    """The code of each text's language. `given` is that of all of them."""
    if check_language(given) != AUTO:
        return (given,) * len(texts)
    scripts = [_script(text) for text in texts]
    mains = _main_languages(texts, scripts)
    guesses = [_guess(text, mains[script]) for text, script in zip(texts, scripts, strict=True)]
    certain = Counter(code for code, is_certain, _ in guesses if is_certain)
    least = max(_LEAST_COMMENTS, _LEAST_SHARE * len(texts))
    spoken = {code for code, count in certain.items() if count >= least and code in language_codes()}
    return tuple(
        code if code in spoken and is_likely else mains[script]
        for (code, _, is_likely), script in zip(guesses, scripts, strict=True)
    )


def _main_languages(texts: Sequence[str], scripts: Sequence[str]) -> dict[str, str]:
    """The main language of each script. A script of a few words only is read in the conversation's."""
    main, _ = _classify(" ".join(texts)[:_SAMPLE_CHARACTERS])
    mains = dict.fromkeys(scripts, main)
    for script, count in Counter(scripts).items():
        together = " ".join(text for text, own in zip(texts, scripts, strict=True) if own == script)
        if script == _JAPANESE:
            mains[script] = "ja"
        elif count >= _LEAST_COMMENTS and _letters(together) >= _LEAST_LETTERS:
            code, _ = _classify(together[:_SAMPLE_CHARACTERS])
            mains[script] = code if code in language_codes() else main
    return mains


@lru_cache(maxsize=16_384)
def _script_of(letter: str) -> str:
    if _KANJI.match(letter):
        return _HAN
    name = unicodedata.name(letter, "").split(" ")[0].split("-")[0]
    return "KANA" if name in ("HIRAGANA", "KATAKANA") else name


def _script(text: str) -> str:
    """The script that says most of a text. A letter of a script that writes syllables or words says more."""
    counts = Counter(_script_of(letter) for letter in text if letter.isalpha())
    dense = counts["KANA"] + counts[_HAN]
    if counts["KANA"] * _KANA_SHARE >= max(1, dense):
        counts[_JAPANESE] = dense
    for script in (_JAPANESE, _HAN, "HANGUL"):
        counts[script] *= _DENSE
    return min(counts, key=lambda script: (-counts[script], script)) if counts.total() else ""


def _guess(text: str, main: str) -> tuple[str, bool, bool]:
    """The language of a text, whether that is certain, and whether it is likely; of a short text the main language."""
    letters = _letters(text)
    if letters < _FEWEST_LETTERS:
        return main, False, False
    code, sure = _classify(text)
    is_shown = code != main and _shows(text, code, main)
    return code, is_shown or (sure >= _CERTAIN and letters >= _LEAST_LETTERS), is_shown or sure >= _LIKELY


def _shows(text: str, code: str, main: str) -> bool:
    """Whether a text has several function words of a language, and hardly any of the main one."""
    if code not in language_codes():
        return False
    words = {word.lower() for word in _word_pattern().findall(text)}
    own, others = len(words & language(code).function_words), len(words & language(main).function_words)
    return own >= _SHOWN and own > 2 * others


def _classify(text: str) -> tuple[str, float]:
    """The language, and how sure that is."""
    if not _letters(text):
        return UNKNOWN, 1.0
    code, sure = _identifier().classify(text)
    return _RELATIVES.get(code, code), float(sure)


@cache
def _identifier() -> Any:
    langid = library("py3langid.langid")
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)


def _letters(text: str) -> int:
    return sum(letter.isalpha() for letter in text)
