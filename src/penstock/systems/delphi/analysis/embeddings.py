"""Comments to vectors.

1. Nothing is downloaded, unless a sentence-transformer is asked for: WordLlama has its vectors in its wheel.
2. A fitted embedder places a further text among the comments that it was fitted to, by the same rules.
3. Rows have length 1, or 0 for a text that says nothing. The same texts and seed give the same rows.

WordLlama knows that a bicycle is ridden on a lane; TF-IDF knows which words these comments share. Joined they are
better than either: docs/decisions/0063-topics.md has the figures. For a script that WordLlama reads letter by letter,
TF-IDF stands alone.

Vectors are stored as bytes: 32-bit floats, little-endian, one after the other. A list of 384 DynamoDB numbers has about
4.4 KB and is parsed digit by digit; packed, the same vector has 1.5 KB.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

from penstock.errors import PenstockError
from penstock.systems.delphi.analysis.keywords import terms, text_runs
from penstock.systems.delphi.analysis.languages import Run
from penstock.systems.delphi.analysis.libraries import library

FLOAT_BYTES: Final = 4


def pack_vector(vector: Sequence[float]) -> bytes:
    """Raises ValueError for a component that is no number: it would poison every distance to it."""
    values = [float(component) for component in vector]
    if not all(map(math.isfinite, values)):
        raise ValueError("a component of the vector is NaN or infinite")
    return struct.pack(f"<{len(values)}f", *values)


def unpack_vector(data: bytes, dimensions: int) -> tuple[float, ...]:
    """Raises ValueError where the bytes are not of that many dimensions."""
    if len(data) != dimensions * FLOAT_BYTES:
        raise ValueError(f"{len(data):,} bytes are no vector of {dimensions:,} dimensions")
    return struct.unpack(f"<{dimensions}f", data)


_TFIDF_DIMENSIONS: Final = 64
_JOINED_DIMENSIONS: Final = 256
"""Of TF-IDF beside WordLlama, which has 256 itself."""
_COMMENTS_A_DIMENSION: Final = 4
"""With fewer comments there are fewer directions worth having; more of them only separate single comments."""
_LEAST_DIMENSIONS: Final = 8
_LETTER_WEIGHT: Final = 0.4
"""Letters find spellings and word forms that stems miss; they must not outvote the words."""
_LEAST_IN_LANGUAGE: Final = 20
"""So many comments of a language have a middle of their own: what they share is the language, not a subject."""
_LETTERS_A_PIECE: Final = 1.8
_MINILM: Final = "all-MiniLM-L6-v2"
_HAN: Final = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")


class Fitted(Protocol):
    """An embedder that has read a conversation."""

    @property
    def name(self) -> str:
        """What the tables call the model."""

    @property
    def vectors(self) -> Any:
        """A numpy array of 32-bit floats, one row a comment."""

    def place(self, texts: Sequence[str], languages: Sequence[str]) -> Any:
        """Rows for further texts, in the same space."""


class Embedder(Protocol):
    """Anything that turns the texts of a conversation into rows of a matrix."""

    @property
    def library(self) -> str:
        """What it stands on."""

    def fit(self, texts: Sequence[str], languages: Sequence[str], seed: int) -> Fitted:
        """`languages` has the code of each text's language."""


class TfidfEmbedder:
    """Counts words and letters, reduced to their main directions: for a script that no other model here reads."""

    library: Final = "sklearn"

    def fit(self, texts: Sequence[str], languages: Sequence[str], seed: int) -> Fitted:
        return _TfidfFit(texts, languages, seed, _TFIDF_DIMENSIONS)


class _TfidfFit:
    name: Final = "tfidf-svd"

    def __init__(self, texts: Sequence[str], languages: Sequence[str], seed: int, most: int) -> None:
        self._parts = [
            (vectorizer, weight)
            for vectorizer, weight in (
                (_fit_vectorizer(text_runs(texts, languages), analyzer=terms), 1.0),
                (_fit_vectorizer(_letters(texts), analyzer="char_wb", ngram_range=(3, 5)), _LETTER_WEIGHT),
            )
            if vectorizer is not None
        ]
        features = self._features(texts, languages)
        wanted = max(_LEAST_DIMENSIONS, len(texts) // _COMMENTS_A_DIMENSION) if most == _TFIDF_DIMENSIONS else most
        dimensions = min(most, wanted, len(texts) - 1, features.shape[1] - 1)
        self._svd = None
        if dimensions >= 2:
            numpy = library("numpy")
            self._svd = library("sklearn.decomposition").TruncatedSVD(dimensions, random_state=seed, n_iter=7)
            with numpy.errstate(divide="ignore", invalid="ignore"):  # rows that are all alike explain no variance
                self._svd.fit(features)
        self.vectors = unit_rows(self.reduced(texts, languages))

    def reduced(self, texts: Sequence[str], languages: Sequence[str]) -> Any:
        """Rows whose length is what of them the main directions have."""
        features = self._features(texts, languages)
        return library("numpy").asarray(features.todense()) if self._svd is None else self._svd.transform(features)

    def place(self, texts: Sequence[str], languages: Sequence[str]) -> Any:
        return unit_rows(self.reduced(texts, languages))

    def _features(self, texts: Sequence[str], languages: Sequence[str]) -> Any:
        """Sparse rows: words beside letters."""
        sparse = library("scipy.sparse")
        if not self._parts:
            return sparse.csr_matrix((len(texts), 1))
        inputs = (text_runs(texts, languages), _letters(texts))
        found = [
            vectorizer.transform(inputs[0] if callable(vectorizer.analyzer) else inputs[1]) * weight
            for vectorizer, weight in self._parts
        ]
        rows = sparse.hstack(found).tocsr()
        return library("sklearn.preprocessing").normalize(rows)


class WordLlamaEmbedder:
    """Meaning and words: WordLlama's vectors joined with TF-IDF."""

    library: Final = "wordllama"

    def fit(self, texts: Sequence[str], languages: Sequence[str], seed: int) -> Fitted:
        return _WordLlamaFit(texts, languages, seed)


class _WordLlamaFit:
    """A text is the middle of its pieces and the middle of its telling words, the rarer the more, beside its TF-IDF."""

    name: Final = "wordllama-256+tfidf"

    def __init__(self, texts: Sequence[str], languages: Sequence[str], seed: int) -> None:
        self._tfidf = _TfidfFit(texts, languages, seed, _JOINED_DIMENSIONS)
        documents = text_runs(texts, languages)
        self._count = len(documents)
        self._frequency = Counter(stem for runs in documents for stem in {word.stem for run in runs for word in run})
        numpy = library("numpy")
        sentences, words = self._sentences(texts), self._words(documents)
        # The middle of two is between them: nothing would be left of what they share.
        everyone = numpy.ones(len(texts), dtype=bool) if len(texts) > 2 else numpy.zeros(len(texts), dtype=bool)
        self._middle = _middle_of(sentences, words, everyone)
        self._middles = {
            code: _middle_of(sentences, words, numpy.array([one == code for one in languages]))
            for code, count in Counter(languages).items()
            if count >= _LEAST_IN_LANGUAGE
        }
        self.vectors = self.place(texts, languages)

    def place(self, texts: Sequence[str], languages: Sequence[str]) -> Any:
        numpy = library("numpy")
        sentences, words = self._sentences(texts), self._words(text_runs(texts, languages))
        said = numpy.linalg.norm(words, axis=1, keepdims=True) > 0
        middles = [self._middles.get(code, self._middle) for code in languages]
        sentences = sentences - numpy.array([middle for middle, _ in middles])
        words = (words - numpy.array([middle for _, middle in middles])) * said
        meaning = unit_rows(unit_rows(sentences) + unit_rows(words))
        return unit_rows(numpy.hstack([meaning, self._tfidf.reduced(texts, languages)]))

    def _sentences(self, texts: Sequence[str]) -> Any:
        return unit_rows(wordllama().embed(list(texts), norm=False))

    def _words(self, documents: Sequence[Sequence[Run]]) -> Any:
        """The middle of the telling words, weighted by how rare they are."""
        numpy = library("numpy")
        forms = sorted({word.written.lower() for runs in documents for run in runs for word in run})
        rows = numpy.zeros((len(documents), wordllama().embedding.shape[1]), dtype=numpy.float32)
        known = dict(zip(forms, unit_rows(wordllama().embed(forms, norm=False)), strict=True)) if forms else {}
        for row, runs in enumerate(documents):
            for word in (word for run in runs for word in run):
                weight = math.log((self._count + 1) / max(1, self._frequency[word.stem]))
                rows[row] += known[word.written.lower()] * weight
        return unit_rows(rows)


def _middle_of(sentences: Any, words: Any, rows: Any) -> tuple[Any, Any]:
    if not rows.any():
        return sentences[:1].mean(axis=0) * 0, words[:1].mean(axis=0) * 0
    return sentences[rows].mean(axis=0), words[rows].mean(axis=0)


class AutoEmbedder:
    """WordLlama joined with TF-IDF for the languages that WordLlama serves; TF-IDF for the others."""

    library: Final = "wordllama"

    def fit(self, texts: Sequence[str], languages: Sequence[str], seed: int) -> Fitted:
        return (WordLlamaEmbedder() if serves(texts) else TfidfEmbedder()).fit(texts, languages, seed)


def serves(texts: Sequence[str]) -> bool:
    """Whether WordLlama reads these texts in pieces that mean something, not letter by letter or byte by byte.

    A Chinese letter means something by itself.
    """
    pieces = [piece for text in texts for piece in wordllama().tokenizer.encode(text, add_special_tokens=False).tokens]
    letters = sum(letter.isalpha() for text in texts for letter in text)
    if not pieces or not letters:
        return False
    han = sum(len(_HAN.findall(text)) for text in texts)
    return 2 * han > letters or letters >= _LETTERS_A_PIECE * len(pieces)


@cache
def wordllama() -> Any:
    """The model. Its own loader looks for the files of the wheel in another folder, and would then download them."""
    module = library("wordllama")
    return module.WordLlama.load(cache_dir=Path(module.__file__).parent, disable_download=True)


class MiniLmEmbedder:
    """sentence-transformers' small English model: 384 dimensions. It is downloaded at its first use."""

    library: Final = "sentence_transformers"

    def fit(self, texts: Sequence[str], languages: Sequence[str], seed: int) -> Fitted:
        return _MiniLmFit(texts)


class _MiniLmFit:
    name: Final = _MINILM

    def __init__(self, texts: Sequence[str]) -> None:
        self._model = library("sentence_transformers").SentenceTransformer(_MINILM)
        self.vectors = self.place(texts, ())

    def place(self, texts: Sequence[str], languages: Sequence[str]) -> Any:
        return unit_rows(self._model.encode(list(texts), show_progress_bar=False))


EMBEDDERS: Final[dict[str, Callable[[], Embedder]]] = {
    "auto": AutoEmbedder,
    "wordllama": WordLlamaEmbedder,
    "tfidf": TfidfEmbedder,
    "minilm": MiniLmEmbedder,
}
DEFAULT_EMBEDDER: Final = "auto"


def embedder_named(name: str) -> Embedder:
    """Raises PenstockError for a name that there is not."""
    if name not in EMBEDDERS:
        raise PenstockError(f"There is no embedder {name!r}: there are {', '.join(EMBEDDERS)}.")
    return EMBEDDERS[name]()


def _letters(texts: Sequence[str]) -> list[str]:
    return ["".join(" " if letter.isdigit() else letter for letter in text.casefold()) for text in texts]


def _fit_vectorizer(documents: Sequence[Any], **settings: Any) -> Any:
    """Terms of one comment alone connect it with nothing, and are left out where enough others remain."""
    vectorizer = library("sklearn.feature_extraction.text").TfidfVectorizer
    for least in (2, 1):
        try:
            return vectorizer(min_df=least, sublinear_tf=True, **settings).fit(documents)
        except ValueError:  # no term is left
            continue
    return None


def unit_rows(rows: Any) -> Any:
    """Rows of length 1; a row of zeros stays one."""
    numpy = library("numpy")
    rows = numpy.asarray(rows, dtype=numpy.float32)
    lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return numpy.ascontiguousarray(rows / lengths, dtype=numpy.float32)
