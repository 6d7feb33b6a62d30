"""Vectors to a map: two coordinates for each comment, and the graph of neighbours that the map was drawn from.

The graph is UMAP's, but exact, and the same on every machine. It is a short formula: each comment holds its nearest
ones, the nearest wholly and the others the less the farther they are, so much that all together count log2(k); two
comments are held together if either holds the other.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from penstock.systems.delphi.analysis.layout import MIN_DIST, lay_out
from penstock.systems.delphi.analysis.libraries import library

NEIGHBORS: Final = 12
_BLOCK: Final = 2_048
"""Rows whose distances to all others are in memory at once."""
_STEPS: Final = 64
_LEAST_SCALE: Final = 1e-3
_MOST_ROUNDS: Final = 1_000
_MOST_STEPS: Final = 300
_NEARLY: Final = 1e-4


def neighbor_graph(vectors: Any, neighbors: int = NEIGHBORS) -> Any:
    """A symmetric sparse matrix of weights from 0 to 1, of unit rows by cosine distance."""
    count = min(neighbors, len(vectors) - 1)
    indices, distances = _nearest(vectors, count)
    weights = _weights(distances)
    numpy = library("numpy")
    rows = numpy.repeat(numpy.arange(len(vectors)), count)
    shape = (len(vectors), len(vectors))
    held = library("scipy.sparse").csr_matrix((weights.ravel(), (rows, indices.ravel())), shape=shape)
    other = held.transpose()
    graph = (held + other - held.multiply(other)).tocsr()
    graph.sort_indices()
    return graph


def _nearest(vectors: Any, count: int) -> tuple[Any, Any]:
    """The `count` nearest others of each row, the nearest first; of two as near, the earlier row."""
    numpy = library("numpy")
    indices, distances = [], []
    for start in range(0, len(vectors), _BLOCK):
        block = numpy.clip(1.0 - vectors[start : start + _BLOCK] @ vectors.T, 0.0, 2.0).round(6)
        block[numpy.arange(len(block)), numpy.arange(start, start + len(block))] = numpy.inf
        order = numpy.argsort(block, axis=1, kind="stable")[:, :count]
        indices.append(order)
        distances.append(numpy.take_along_axis(block, order, axis=1))
    return numpy.vstack(indices), numpy.vstack(distances).astype(numpy.float64)


def _weights(distances: Any) -> Any:
    """exp(-(distance - nearest) / scale), with the scale of each row such that its weights add up to log2(k + 1)."""
    numpy = library("numpy")
    beyond = distances - distances[:, :1]
    target = math.log2(distances.shape[1] + 1)
    low = numpy.zeros(len(distances))
    high = numpy.full(len(distances), numpy.inf)
    scale = numpy.ones(len(distances))
    for _ in range(_STEPS):
        total = numpy.exp(-beyond / scale[:, None]).sum(axis=1)
        high = numpy.where(total > target, scale, high)
        low = numpy.where(total > target, low, scale)
        scale = numpy.where(numpy.isinf(high), scale * 2, (low + numpy.where(numpy.isinf(high), 0.0, high)) / 2)
        scale = numpy.clip(scale, 1e-12, 1e12)
    least = _LEAST_SCALE * numpy.maximum(distances.mean(axis=1), 1e-9)
    return numpy.exp(-beyond / numpy.maximum(scale, least)[:, None])


_DIRECTIONS: Final = 15
_COMMENTS_A_DIRECTION: Final = 60
_MOST_DIRECTIONS: Final = 40
_DENSE: Final = 600
_START_SIZE: Final = 10.0
_SHAKEN: Final = 1e-3
_LEAST_COMMENTS: Final = 6
"""A layout needs a graph: fewer comments are put on a circle, in the order of their ids."""
_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class Edge:
    """Two neighbours, by their rows: how close the layout holds them (0 to 1), and their cosine distance."""

    first: int
    second: int
    weight: float
    distance: float
    is_nearest: bool
    """One of them has no nearer neighbour than the other."""


@dataclass(frozen=True, slots=True)
class Projection:
    positions: tuple[tuple[float, float], ...]
    edges: tuple[Edge, ...]
    parameters: dict[str, Any]


def project_vectors(vectors: Any, seed: int) -> Projection:
    """The map of these rows. The same rows and seed give the same map."""
    count = len(vectors)
    if count < _LEAST_COMMENTS:
        return Projection(_circle(count), tuple(_every_pair(vectors)), {"method": "circle", "n_neighbors": count - 1})
    graph = neighbor_graph(vectors)
    random = library("numpy").random.RandomState(seed)
    coordinates = lay_out(graph, _start(vectors, 2, random), random)
    positions = tuple((round(float(x), _DIGITS), round(float(y), _DIGITS)) for x, y in coordinates)
    parameters = {"method": "umap", "n_neighbors": min(NEIGHBORS, count - 1), "min_dist": MIN_DIST, "metric": "cosine"}
    return Projection(positions, tuple(_edges(graph, vectors)), {**parameters, "random_state": seed})


def graph_directions(vectors: Any, seed: int) -> Any:
    """A few coordinates in which neighbours lie close together: for finding groups, not for drawing.

    They are the main directions of the neighbour graph (its leading eigenvectors, each by its eigenvalue), in rows of
    length 1. Of a graph of many comments only those are computed.
    """
    numpy, sparse = library("numpy"), library("scipy.sparse")
    count = len(vectors)
    graph = neighbor_graph(vectors).astype(numpy.float64)
    degree = numpy.maximum(numpy.asarray(graph.sum(axis=1)).ravel(), 1e-9)
    scale = sparse.diags(1.0 / numpy.sqrt(degree))
    balanced = scale @ graph @ scale
    wanted = max(2, min(max(_DIRECTIONS, count // _COMMENTS_A_DIRECTION), _MOST_DIRECTIONS, count // 4))
    if count <= _DENSE:
        values, rows = numpy.linalg.eigh(balanced.toarray())
    else:
        values, rows = leading_directions(balanced, wanted + 1, seed)
    order = numpy.argsort(-values, kind="stable")[1 : wanted + 1]
    points = rows[:, order] * numpy.maximum(values[order], 0.0)
    return points / numpy.maximum(numpy.linalg.norm(points, axis=1, keepdims=True), 1e-9)


def leading_directions(balanced: Any, wanted: int, seed: int) -> tuple[Any, Any]:
    """The largest eigenvalues of a sparse symmetric matrix, with their vectors.

    A conversation that says the same few things again and again has a graph in many pieces. Its largest eigenvalues are
    alike then, which Lanczos' method, one vector at a time, may never part; one that moves all vectors at once does.
    """
    numpy, linalg = library("numpy"), library("scipy.sparse.linalg")
    random = numpy.random.RandomState(seed)
    start = random.uniform(size=balanced.shape[0])
    try:
        found: tuple[Any, Any] = linalg.eigsh(balanced, k=wanted, which="LA", v0=start, maxiter=_MOST_ROUNDS)
        return found
    except linalg.ArpackNoConvergence:
        starts = random.uniform(size=(balanced.shape[0], wanted))
        with warnings.catch_warnings():  # what is nearly exact is good enough for finding groups
            warnings.simplefilter("ignore", UserWarning)
            values, rows = linalg.lobpcg(balanced, starts, tol=_NEARLY, maxiter=_MOST_STEPS, largest=True)
        return values, rows


def _start(vectors: Any, dimensions: int, random: Any) -> Any:
    """Along the main directions, each with the sign that makes its largest component positive; a little shaken.

    A spectral start fails on graphs of many parts, as short texts give. This one works for rows that are all alike.
    """
    numpy = library("numpy")
    centred = vectors.astype(numpy.float64) - vectors.mean(axis=0, dtype=numpy.float64)
    _, _, directions = numpy.linalg.svd(centred, full_matrices=False)
    directions = directions[:dimensions]
    largest = numpy.abs(directions).argmax(axis=1)
    signs = numpy.sign(directions[numpy.arange(len(directions)), largest])
    start = numpy.zeros((len(vectors), dimensions))
    start[:, : len(directions)] = centred @ (directions * signs[:, None]).T
    start *= _START_SIZE / (numpy.abs(start).max() or 1.0)
    return (start + random.normal(scale=_SHAKEN, size=start.shape)).astype(numpy.float32)


def _edges(graph: Any, vectors: Any) -> Iterator[Edge]:
    numpy = library("numpy")
    upper = library("scipy.sparse").triu(graph, k=1).tocoo()
    order = numpy.lexsort((upper.col, upper.row))
    pairs = [(int(upper.row[place]), int(upper.col[place]), float(upper.data[place])) for place in order]
    distances = [_distance(vectors[first], vectors[second]) for first, second, _ in pairs]
    nearest = [float("inf")] * len(vectors)
    for (first, second, _), distance in zip(pairs, distances, strict=True):
        nearest[first] = min(nearest[first], distance)
        nearest[second] = min(nearest[second], distance)
    for (first, second, weight), distance in zip(pairs, distances, strict=True):
        is_nearest = distance <= nearest[first] or distance <= nearest[second]
        yield Edge(first, second, round(weight, _DIGITS), distance, is_nearest)


def _every_pair(vectors: Any) -> Iterator[Edge]:
    for first in range(len(vectors)):
        for second in range(first + 1, len(vectors)):
            distance = _distance(vectors[first], vectors[second])
            yield Edge(first, second, round(1 - distance / 2, _DIGITS), distance, len(vectors) == 2)


def _distance(first: Any, second: Any) -> float:
    return round(min(2.0, max(0.0, 1.0 - float(first @ second))), _DIGITS)


def _circle(count: int) -> tuple[tuple[float, float], ...]:
    numpy = library("numpy")
    turns = [2 * numpy.pi * row / max(1, count) for row in range(count)]
    return tuple((round(float(numpy.cos(turn)), _DIGITS), round(float(numpy.sin(turn)), _DIGITS)) for turn in turns)
