"""The comments of a run that are most like a text.

The database's vector index says which they are, where there is one and it has every comment of the run; otherwise every
vector is looked at here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.systems.delphi.analysis.conversation import tidy
from penstock.systems.delphi.analysis.embeddings import EMBEDDERS, unpack_vector
from penstock.systems.delphi.analysis.languages import detect_languages
from penstock.systems.delphi.analysis.libraries import check_installed, library, one_thread
from penstock.systems.delphi.results import ASSIGNMENTS, EMBEDDINGS, NAMES, Results
from penstock.systems.delphi.tables import VECTOR_DIMENSIONS
from penstock.wire.limits import VECTOR_TOP_K

_EMBEDDER_OF: Final = {
    "wordllama-256+tfidf": "wordllama",
    "tfidf-svd": "tfidf",
    "all-MiniLM-L6-v2": "minilm",
}
_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class Similar:
    comment_id: int
    text: str
    similarity: float
    """Of the vectors: 1 is the same, 0 has nothing in common."""
    topic: str
    """The name of its finest topic; empty for an outlier."""


def find_similar(results: Results, job_id: str | None, text: str, *, most: int = 10) -> list[Similar]:
    """The comments of a run most like `text`, the most similar first. Raises RunNotFound, PenstockError.

    The text is placed among the comments as the run placed those: the embedder is fitted to them once more.
    """
    config = results.config(job_id)
    check_installed()
    asked = tidy(text)
    if not any(letter.isalnum() for letter in asked):
        raise PenstockError("The text to look for has no word. Give a few words, as a comment would say it.")
    said = list(results.of_job(ASSIGNMENTS, job_id))
    if any("comment_text" not in item for item in said):
        raise PenstockError(f"The run {job_id} is of an older version and has no texts. Run the conversation again.")
    row = _place(asked, said, str(config["embedding_model"]), int(config["metadata"]["seed"]))
    likeness = _searched(results, job_id, row, most, len(said)) or _compared(results, job_id, row)
    names = {item["topic_key"]: str(item["topic_name"]) for item in results.of_job(NAMES, job_id)}
    found = []
    for item in said:
        comment = int(item["comment_id"])
        similarity = round(likeness.get(comment, 0.0), _DIGITS)
        if similarity > 0:
            topic = names.get(f"layer0_{int(item['layer0_cluster_id'])}", "")
            found.append(Similar(comment, str(item["comment_text"]), similarity, topic))
    return sorted(found, key=lambda one: (-one.similarity, one.comment_id))[:most]


def _searched(results: Results, job_id: str | None, row: Any, most: int, comments: int) -> dict[int, float] | None:
    """The products of the nearest comments, by the vector index; None where it cannot say."""
    if not 0 < most <= VECTOR_TOP_K or len(row) > VECTOR_DIMENSIONS or not results.has_vector_index():
        return None
    found = dict(results.nearest(job_id, row, most))
    # A run of an older program has no vectors in the index.
    return found if len(found) == min(most, comments) else None


def _compared(results: Results, job_id: str | None, row: Any) -> dict[int, float]:
    """The same of all comments, each looked at."""
    found = {}
    for item in results.of_job(EMBEDDINGS, job_id):
        embedding = item["embedding"]
        vector = unpack_vector(embedding["vector"], int(embedding["dimensions"]))
        found[int(item["comment_id"])] = float(library("numpy").dot(row, vector))
    return found


def _place(text: str, said: list[dict[str, Any]], model: str, seed: int) -> Any:
    if model not in _EMBEDDER_OF:
        raise PenstockError(f"There is no embedder for the vectors of {model}. Run the conversation again.")
    texts, codes = [str(item["comment_text"]) for item in said], [str(item["language"]) for item in said]
    with one_thread():
        fitted = EMBEDDERS[_EMBEDDER_OF[model]]().fit(texts, codes, seed)
        [code] = detect_languages([text])
        main = max(sorted(set(codes)), key=codes.count)
        return fitted.place([text], [code if code in codes else main])[0]
