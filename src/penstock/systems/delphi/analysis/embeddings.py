"""Comments to vectors.

The default needs no model and no network: TF-IDF of words and of letters, reduced to their main directions. It knows
what a conversation says often together, not what words mean. A sentence-transformer knows more, and is downloaded.

Vectors are stored as bytes: 32-bit floats, little-endian, one after the other. A list of 384 DynamoDB numbers has about
4.4 KB and is parsed digit by digit; packed, the same vector has 1.5 KB.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from penstock.errors import PenstockError
from penstock.systems.delphi.analysis.keywords import terms
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


MOST_DIMENSIONS: Final = 64
_COMMENTS_A_DIMENSION: Final = 4
"""With fewer comments there are fewer directions worth having; more of them only separate single comments."""
_LEAST_DIMENSIONS: Final = 8
_LETTER_WEIGHT: Final = 0.4
"""Letters find spellings and word forms that stems miss; they must not outvote the words."""
_MINILM: Final = "all-MiniLM-L6-v2"


class Embedder(Protocol):
    """Anything that turns texts into rows of a matrix, each of length 1 (or 0 for a text that says nothing)."""

    @property
    def name(self) -> str:
        """What the tables call the model."""

    @property
    def library(self) -> str:
        """What it stands on."""

    def embed(self, texts: Sequence[str], seed: int) -> Any:
        """A numpy array of 32-bit floats, one row a text."""


class TfidfEmbedder:
    name: Final = "tfidf-svd"
    library: Final = "sklearn"

    def embed(self, texts: Sequence[str], seed: int) -> Any:
        numpy = library("numpy")
        features = _features(texts)
        dimensions = _dimensions(len(texts), features.shape[1])
        if dimensions < 2:
            return _unit(numpy.asarray(features.todense()))
        svd = library("sklearn.decomposition").TruncatedSVD(dimensions, random_state=seed, n_iter=10)
        with numpy.errstate(divide="ignore", invalid="ignore"):  # rows that are all alike explain no variance
            return _unit(svd.fit_transform(features))


class MiniLmEmbedder:
    """sentence-transformers' small English model: 384 dimensions. It is downloaded at its first use."""

    name: Final = _MINILM
    library: Final = "sentence_transformers"

    def embed(self, texts: Sequence[str], seed: int) -> Any:
        model = library("sentence_transformers").SentenceTransformer(_MINILM)
        return _unit(model.encode(list(texts), show_progress_bar=False))


EMBEDDERS: Final[dict[str, Callable[[], Embedder]]] = {"tfidf": TfidfEmbedder, "minilm": MiniLmEmbedder}


def embedder_named(name: str) -> Embedder:
    """Raises PenstockError for a name that there is not."""
    if name not in EMBEDDERS:
        raise PenstockError(f"There is no embedder {name!r}: there are {' and '.join(EMBEDDERS)}.")
    return EMBEDDERS[name]()


def _features(texts: Sequence[str]) -> Any:
    """Sparse rows: words beside letters."""
    parts = [matrix for matrix in (_words(texts), _letters(texts)) if matrix is not None]
    if not parts:
        return library("scipy.sparse").csr_matrix((len(texts), 1))
    return library("scipy.sparse").hstack(parts).tocsr()


def _words(texts: Sequence[str]) -> Any:
    return _fit(texts, 1.0, analyzer=terms)


def _letters(texts: Sequence[str]) -> Any:
    plain = ["".join(" " if letter.isdigit() else letter for letter in text.casefold()) for text in texts]
    return _fit(plain, _LETTER_WEIGHT, analyzer="char_wb", ngram_range=(3, 5))


def _fit(texts: Sequence[str], weight: float, **settings: Any) -> Any:
    """Terms of one comment alone connect it with nothing, and are left out where enough others remain."""
    vectorizer = library("sklearn.feature_extraction.text").TfidfVectorizer
    for least in (2, 1):
        try:
            return vectorizer(min_df=least, sublinear_tf=True, **settings).fit_transform(texts) * weight
        except ValueError:  # no term is left
            continue
    return None


def _dimensions(comments: int, features: int) -> int:
    wanted = max(_LEAST_DIMENSIONS, comments // _COMMENTS_A_DIMENSION)
    return min(MOST_DIMENSIONS, wanted, comments - 1, features - 1)


def _unit(rows: Any) -> Any:
    """Rows of length 1; a row of zeros stays one."""
    numpy = library("numpy")
    rows = numpy.asarray(rows, dtype=numpy.float32)
    lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return numpy.ascontiguousarray(rows / lengths, dtype=numpy.float32)
