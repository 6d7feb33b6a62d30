"""What goes from step to step, as JSON in files: a run that is killed goes on with exactly what was there."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import orjson

from penstock.systems.delphi.clustering import Layers
from penstock.systems.delphi.conversation import Comment, Conversation, Skipped
from penstock.systems.delphi.keywords import Keyword
from penstock.systems.delphi.libraries import library
from penstock.systems.delphi.projection import Edge, Projection
from penstock.systems.delphi.topics import Topic


def dumped(value: Any) -> bytes:
    """A dataclass of this package, or a list of them, as JSON."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=dataclasses.asdict)


def conversation_of(data: bytes) -> Conversation:
    form = orjson.loads(data)
    return Conversation(
        tuple(Comment(**one) for one in form["comments"]), tuple(Skipped(**one) for one in form["skipped"])
    )


def projection_of(data: bytes) -> Projection:
    form = orjson.loads(data)
    positions = tuple((x, y) for x, y in form["positions"])
    return Projection(positions, tuple(Edge(**one) for one in form["edges"]), form["parameters"])


def layers_of(data: bytes) -> Layers:
    form = orjson.loads(data)
    labels, confidence = (tuple(map(tuple, form[name])) for name in ("labels", "confidence"))
    return Layers(labels, confidence, form["parameters"])


def topics_of(data: bytes) -> list[Topic]:
    return [_topic(form) for form in orjson.loads(data)]


def _topic(form: dict[str, Any]) -> Topic:
    lists = {name: tuple(form[name]) for name in ("rows", "samples", "centroid", "children")}
    keywords = tuple(Keyword(**one) for one in form["keywords"])
    return Topic(**{**form, **lists, "keywords": keywords})


def dumped_vectors(vectors: Any) -> bytes:
    """NumPy's own format, without anything that would have to be run to be read."""
    stream = io.BytesIO()
    library("numpy").save(stream, vectors, allow_pickle=False)
    return stream.getvalue()


def vectors_of(data: bytes) -> Any:
    return library("numpy").load(io.BytesIO(data), allow_pickle=False)
