"""UMAP's layout: a graph of neighbours to coordinates in which neighbours lie close together.

It is the optimisation of umap-learn, by NumPy: an edge is sampled as often as its weight says; its ends attract each
other; the first of them is pushed away by comments that are chosen by chance. umap-learn moves two points at a time,
with code that it compiles for half a minute at its first use. Here the edges of an epoch are moved in a few parts, so
that a point moves a few times an epoch, as there. docs/decisions/0083-a-map-without-a-compiler.md compares the maps.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.systems.delphi.analysis.libraries import library

MIN_DIST: Final = 0.1
_A: Final = 1.5769434604
_B: Final = 0.8950608779
"""The curve 1 / (1 + a·d^2b) that is nearest to: 1 up to MIN_DIST, then exp(MIN_DIST - d)."""
_EPOCHS: Final = 500
_EPOCHS_OF_MANY: Final = 200
_MANY: Final = 10_000
_PUSHES: Final = 5
"""Comments that push, for each one that attracts."""
_FURTHEST: Final = 4.0
"""A point moves no farther than this by one other, at the first step."""
_PARTS: Final = 8
_NEAR: Final = 1e-3


def lay_out(graph: Any, start: Any, random: Any) -> Any:
    """Coordinates for the rows of `graph`, a symmetric sparse matrix of weights, from those of `start`.

    The same graph, start and state of `random` give the same coordinates.
    """
    numpy = library("numpy")
    places = numpy.array(start, dtype=numpy.float64)
    count = len(places)
    epochs = _EPOCHS if count <= _MANY else _EPOCHS_OF_MANY
    edges = graph.tocoo()
    share = edges.data / max(edges.data.max(initial=0.0), 1e-12)
    kept = share >= 1.0 / epochs  # the others would not be sampled once
    heads, tails, share = edges.row[kept], edges.col[kept], share[kept]
    for epoch in range(epochs):
        step = 1.0 - epoch / epochs
        due = numpy.flatnonzero(numpy.floor((epoch + 1) * share) > numpy.floor(epoch * share))
        for part in numpy.array_split(random.permutation(due), _PARTS):
            if len(part):
                _move(places, heads[part], tails[part], random, step)
    return places


def _move(places: Any, heads: Any, tails: Any, random: Any, step: float) -> None:
    """Both ends of these edges towards each other, and the first ones away from others."""
    numpy = library("numpy")
    count = len(places)
    apart = places[heads] - places[tails]
    squared = (apart * apart).sum(axis=1)
    raised = numpy.power(numpy.maximum(squared, 1e-12), _B)
    pull = -2.0 * _A * _B * raised / numpy.maximum(squared, 1e-12) / (1.0 + _A * raised)
    towards = numpy.clip(pull[:, None] * apart, -_FURTHEST, _FURTHEST) * step
    pushed = numpy.repeat(heads, _PUSHES)
    others = random.randint(0, count, size=len(pushed))
    between = places[pushed] - places[others]
    squared = (between * between).sum(axis=1)
    push = 2.0 * _B / ((_NEAR + squared) * (1.0 + _A * numpy.power(squared, _B)))
    away = numpy.clip(push[:, None] * between, -_FURTHEST, _FURTHEST) * step
    rows = numpy.concatenate([heads, tails, pushed])
    for axis in range(places.shape[1]):
        moves = numpy.concatenate([towards[:, axis], -towards[:, axis], away[:, axis]])
        places[:, axis] += numpy.bincount(rows, weights=moves, minlength=count)
