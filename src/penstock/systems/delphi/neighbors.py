"""The graph of neighbours that UMAP draws a map from: exact, and the same on every machine.

UMAP can make it by itself, with code that it compiles anew in every process, which takes longer than all else in a run
of a few hundred comments. What it makes is a short formula: each comment holds its nearest ones, the nearest wholly and
the others the less the farther they are, so much that all together count log2(k); two comments are held together if
either holds the other.
"""

from __future__ import annotations

import math
from typing import Any, Final

from penstock.systems.delphi.libraries import library

NEIGHBORS: Final = 12
_BLOCK: Final = 2_048
"""Rows whose distances to all others are in memory at once."""
_STEPS: Final = 64
_LEAST_SCALE: Final = 1e-3


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
