"""The comments of a run that are most like a text: every vector is looked at, so that none is missed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.systems.delphi.analysis.conversation import tidy
from penstock.systems.delphi.analysis.embeddings import EMBEDDERS, unpack_vector
from penstock.systems.delphi.analysis.languages import detect_languages
from penstock.systems.delphi.analysis.libraries import check_installed, library, one_thread
from penstock.systems.delphi.results import ASSIGNMENTS, EMBEDDINGS, NAMES, Results

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
    stored = {int(item["comment_id"]): item["embedding"] for item in results.of_job(EMBEDDINGS, job_id)}
    row = _place(asked, said, str(config["embedding_model"]), int(config["metadata"]["seed"]))
    names = {item["topic_key"]: str(item["topic_name"]) for item in results.of_job(NAMES, job_id)}
    found = []
    for item in said:
        embedding = stored[int(item["comment_id"])]
        vector = unpack_vector(embedding["vector"], int(embedding["dimensions"]))
        likeness = round(float(library("numpy").dot(row, vector)), _DIGITS)
        if likeness > 0:
            topic = names.get(f"layer0_{int(item['layer0_cluster_id'])}", "")
            found.append(Similar(int(item["comment_id"]), str(item["comment_text"]), likeness, topic))
    return sorted(found, key=lambda one: (-one.similarity, one.comment_id))[:most]


def _place(text: str, said: list[dict[str, Any]], model: str, seed: int) -> Any:
    if model not in _EMBEDDER_OF:
        raise PenstockError(f"There is no embedder for the vectors of {model}. Run the conversation again.")
    texts, codes = [str(item["comment_text"]) for item in said], [str(item["language"]) for item in said]
    with one_thread():
        fitted = EMBEDDERS[_EMBEDDER_OF[model]]().fit(texts, codes, seed)
        [code] = detect_languages([text])
        main = max(sorted(set(codes)), key=codes.count)
        return fitted.place([text], [code if code in codes else main])[0]
