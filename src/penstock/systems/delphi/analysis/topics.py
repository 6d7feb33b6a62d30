"""Clusters to topics: what each says, the comments that say it best, and a name.

The namer is a plug-in. The one that ships is made of keywords, so that a run needs no key and gives the same names each
time; a language model is anything with the same two members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from penstock.errors import PenstockError
from penstock.systems.delphi.analysis.clusters import OUTLIER, Layers
from penstock.systems.delphi.analysis.keywords import Keyword, Vocabulary
from penstock.user_modules import load_attribute

SAMPLES: Final = 5
_NAME_KEYWORDS: Final = 3
_NAME_CHARACTERS: Final = 80
_CLOSE: Final = 0.35
"""A further keyword stands in the name only if it is about as telling as the first."""
_NO_NOUN: Final = 0.6
"""A name says what a topic is about: "Plastik" rather than "verboten"."""
_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class Topic:
    """A cluster, described. `rows` are its comments; `samples` are rows too, the most typical first."""

    layer: int
    cluster: int
    rows: tuple[int, ...]
    keywords: tuple[Keyword, ...]
    samples: tuple[int, ...]
    centroid: tuple[float, float]
    """On the map."""
    parent: int | None = None
    """The cluster of the next coarser layer that has most of its comments."""
    children: tuple[int, ...] = ()
    """Clusters of the next finer layer."""

    @property
    def key(self) -> str:
        return cluster_key(self.layer, self.cluster)

    @property
    def size(self) -> int:
        return len(self.rows)


class Namer(Protocol):
    """Gives a topic its name: from keywords, by a language model, by hand."""

    @property
    def model_name(self) -> str:
        """What the tables say of who named it."""

    def name(self, topic: Topic, comments: Sequence[str]) -> str:
        """`comments` are the topic's samples, the most typical first."""


class KeywordNamer:
    """The same topic has always the same name."""

    model_name: Final = "keywords"

    def name(self, topic: Topic, comments: Sequence[str]) -> str:
        if not topic.keywords:
            return f"“{_cut(comments[0])}”" if comments else f"Topic {topic.cluster}"
        ranked = sorted(topic.keywords, key=_telling, reverse=True)
        best = _telling(ranked[0])
        first, further = ranked[:2], ranked[2:_NAME_KEYWORDS]
        text = ", ".join(word.text for word in (*first, *(one for one in further if _telling(one) >= best * _CLOSE)))
        return _cut(text[0].upper() + text[1:])


def _telling(keyword: Keyword) -> float:
    return keyword.score * (1.0 if keyword.is_noun else _NO_NOUN)


def distinct_names(topics: Sequence[Topic], names: Mapping[str, str]) -> dict[str, str]:
    """The same names; where two topics of a layer have one name, the smaller one's gets its next keyword."""
    found: dict[str, str] = {}
    seen: set[tuple[int, str]] = set()
    for topic in topics:
        name = names[topic.key]
        further = [word.text for word in topic.keywords if word.text.casefold() not in name.casefold()]
        while (topic.layer, name.casefold()) in seen and further:
            name = _cut(f"{name}, {further.pop(0)}")
        if (topic.layer, name.casefold()) in seen:
            name = f"{name} ({topic.cluster + 1})"
        seen.add((topic.layer, name.casefold()))
        found[topic.key] = name
    return found


def cluster_key(layer: int, cluster: int) -> str:
    return f"layer{layer}_{cluster}"


def describe_topics(
    layers: Layers,
    texts: Sequence[str],
    vectors: Any,
    positions: Sequence[tuple[float, float]],
    languages: Sequence[str],
) -> list[Topic]:
    """The topics of every layer, finest layer first, in the order of their numbers."""
    vocabulary = Vocabulary(texts, languages)
    found: list[Topic] = []
    for layer in range(len(layers.labels)):
        for cluster in range(layers.count(layer)):
            rows = layers.members(layer, cluster)
            keywords = vocabulary.keywords(rows)
            topic = Topic(
                layer=layer,
                cluster=cluster,
                rows=tuple(rows),
                keywords=keywords,
                samples=_typical(rows, vectors, [vocabulary.coverage(row, keywords) for row in rows]),
                centroid=_middle([positions[row] for row in rows]),
                parent=_parent(layers, layer, rows),
                children=_children(layers, layer, cluster),
            )
            found.append(topic)
    return found


def _typical(rows: Sequence[int], vectors: Any, coverage: Sequence[float]) -> tuple[int, ...]:
    """Those near the middle of all that also say what the keywords say."""
    own = vectors[list(rows)]
    closeness = own @ own.mean(axis=0)
    worth = [round(float(closeness[place]) + coverage[place], _DIGITS) for place in range(len(rows))]
    ranked = sorted(range(len(rows)), key=lambda place: (-worth[place], rows[place]))
    return tuple(rows[place] for place in ranked[:SAMPLES])


def _middle(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    count = len(points)
    return round(sum(x for x, _ in points) / count, _DIGITS), round(sum(y for _, y in points) / count, _DIGITS)


def _parent(layers: Layers, layer: int, rows: Sequence[int]) -> int | None:
    """The coarser layer is the parent (S3.5). Outliers there are nobody's children."""
    if layer + 1 >= len(layers.labels):
        return None
    above = [layers.labels[layer + 1][row] for row in rows]
    return max(
        (label for label in above if label != OUTLIER), key=lambda label: (above.count(label), -label), default=None
    )


def _children(layers: Layers, layer: int, cluster: int) -> tuple[int, ...]:
    """Those finer clusters whose parent this is."""
    if layer == 0:
        return ()
    below = range(layers.count(layer - 1))
    return tuple(one for one in below if _parent(layers, layer - 1, layers.members(layer - 1, one)) == cluster)


def _cut(text: str) -> str:
    return text if len(text) <= _NAME_CHARACTERS else text[: _NAME_CHARACTERS - 1].rstrip(" ,") + "…"


def load_namer(place: str) -> Namer:
    """The namer that `module:attribute` names; a class is called without arguments. Raises PenstockError."""
    _, _, found = load_attribute(place, what="namer", example="models:namer")
    namer = found() if isinstance(found, type) else found
    if not callable(getattr(namer, "name", None)) or not isinstance(getattr(namer, "model_name", None), str):
        raise PenstockError(f"{place} is no namer: it needs `model_name`, a text, and `name(topic, comments)`.")
    kept: Namer = namer
    return kept
