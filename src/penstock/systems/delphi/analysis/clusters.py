"""Vectors to layers of clusters, the finest first.

1. A layer gives each comment a cluster, 0 and up, or OUTLIER. In each layer the larger cluster has the smaller number.
2. Every layer has fewer clusters than the one before, each a union of finer ones; the last is short enough to read.
3. How many comments a cluster has is chosen by the data: the cut whose comments are nearest to their own, and farthest
   from the next cluster (the silhouette).
4. At most MOST_OUTLIERS of the comments are in no cluster, each with the reason. All others are in the nearest one.

The finest layer is a cut through a tree (Ward) of all comments, placed by the main directions of their neighbour graph;
coarser ones follow trees by fewer directions. The tree's memory grows with the square of the comments: larger
conversations are clustered by EVoC.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

from penstock.errors import PenstockError
from penstock.systems.delphi.analysis.libraries import library, one_compiled_thread
from penstock.systems.delphi.analysis.projection import graph_directions

_LOG = logging.getLogger("penstock.delphi")
OUTLIER: Final = -1
CLUSTERERS: Final = ("auto", "evoc", "tree")
Clusterer = Literal["auto", "evoc", "tree"]

LARGEST_TREE: Final = 5_000
MOST_OUTLIERS: Final = 0.05
ALONE: Final = "no other comment is near"
WORDLESS: Final = "it has no word that says something"
_FAR: Final = 2.5
"""So many deviations below the middle, the nearest comment is not near."""
_CLUSTER_SIZES: Final = (5, 6, 7, 8, 10, 12, 15, 20, 25)
"""The comments of a cluster, on average, that are tried."""
_SMALLER_SIZES: Final = (3, 4)
_FEW: Final = 30
"""Of fewer comments, three or four are a topic."""
_ABOUT_AS_GOOD: Final = 0.95
"""Of cuts that are about as good, the one with fewer clusters is easier to read."""
_LEAST_CLUSTER: Final = 3
_LEAST_LAYERED: Final = 6
_COARSEST: Final = 8
"""A reader takes in about so many topics at a glance."""
_WORTH_MERGING: Final = 5
"""Fewer topics need no second layer."""
_LEAST_DIMENSIONS: Final = 5
"""EVoC condenses to four."""
_COARSER: Final = 2.5
_NEIGHBORS: Final = 15
_DIGITS: Final = 6

Labels = tuple[int, ...]
Cutter = Callable[[int], Labels]
"""Cuts all comments into at most so many parts."""


@dataclass(frozen=True, slots=True)
class Layers:
    """`labels[layer][row]`, and how sure each is, 0 to 1."""

    labels: tuple[Labels, ...]
    confidence: tuple[tuple[float, ...], ...]
    parameters: dict[str, Any] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    """Of each row: why it is in no cluster, or nothing."""

    def count(self, layer: int) -> int:
        """Clusters of the layer."""
        return max(self.labels[layer], default=OUTLIER) + 1

    def members(self, layer: int, cluster: int) -> list[int]:
        return [row for row, label in enumerate(self.labels[layer]) if label == cluster]

    def outliers(self) -> dict[str, int]:
        """How many comments are in no cluster, by the reason."""
        return dict(sorted(Counter(reason for reason in self.reasons if reason).items()))


def cluster_vectors(
    vectors: Any, seed: int, clusterer: Clusterer = "auto", wordless: frozenset[int] = frozenset()
) -> Layers:
    """The layers of these rows. The same rows and seed give the same layers.

    `wordless` are rows of comments that have no word that says something: "Yes", "I agree".
    """
    count = len(vectors)
    if clusterer not in CLUSTERERS:
        raise PenstockError(f"There is no clusterer {clusterer!r}: there are {', '.join(CLUSTERERS)}.")
    if count < _LEAST_LAYERED:
        return _layers_of([(0,) * count], vectors, {"method": "one"}, ("",) * count)
    finest, cutter, parameters = _finest(vectors, seed, clusterer)
    reasons = _reasons(vectors, wordless)
    finest = _settle(finest, vectors, reasons)
    return _layers_of(_upwards([finest], cutter), vectors, parameters, reasons)


def _finest(vectors: Any, seed: int, clusterer: Clusterer) -> tuple[Labels, Cutter, dict[str, Any]]:
    """The finest layer, and what gives the coarser ones."""
    count = len(vectors)
    points = graph_directions(vectors, seed)
    wants_evoc = clusterer == "evoc" or (clusterer == "auto" and count > LARGEST_TREE)
    if wants_evoc and vectors.shape[1] >= _LEAST_DIMENSIONS:
        parameters = _evoc_parameters(count, seed)
        found = _evoc(vectors, parameters)
        if found is not None:
            middles = _middles(found, points)
            own = [int(((middles - point) ** 2).sum(axis=1).argmin()) for point in points]
            own_cut = _cutter(middles)
            return found, lambda parts: _of_rows(own, own_cut(parts)), {"method": "evoc", **parameters}
    labels, size = _best_cut(_ward(points), vectors)
    parameters = {"method": "tree", "linkage": "ward", "comments_a_cluster": size, "random_state": seed}
    return labels, _cutter(points), parameters


def _cutter(points: Any) -> Cutter:
    """Cuts by as many of the main directions as there shall be parts.

    So many part so many groups. By all of them, small groups far out are parted, and most comments stay together.
    """
    numpy = library("numpy")

    def cut(parts: int) -> Labels:
        first = points[:, :parts]
        return _cut(_ward(first / numpy.maximum(numpy.linalg.norm(first, axis=1, keepdims=True), 1e-9)), parts)

    return cut


def _of_rows(own: list[int], groups: Labels) -> Labels:
    return tuple(groups[cluster] for cluster in own)


def _best_cut(tree: Any, vectors: Any) -> tuple[Labels, int]:
    """The cut of Ward's tree that the data asks for, and how many comments its clusters have on average."""
    numpy = library("numpy")
    count = len(vectors)
    distances = numpy.clip(1.0 - vectors @ vectors.T, 0.0, 2.0).astype(numpy.float32)
    numpy.fill_diagonal(distances, 0.0)
    silhouette = library("sklearn.metrics").silhouette_score
    tried: list[tuple[float, Labels, int]] = []
    for size in (*(_SMALLER_SIZES if count < _FEW else ()), *_CLUSTER_SIZES):
        labels = _cut(tree, max(2, round(count / size)))
        if 2 <= max(labels) + 1 < count:
            score = round(float(silhouette(distances, labels, metric="precomputed")), _DIGITS)
            tried.append((score, labels, size))
    if not tried:
        return (0,) * count, count
    best = max(score for score, _, _ in tried)
    _, labels, size = [one for one in tried if one[0] >= best - (1 - _ABOUT_AS_GOOD) * abs(best)][-1]
    return labels, size


def _evoc_parameters(count: int, seed: int) -> dict[str, Any]:
    """Comments are short and say much else: little of them is noise, and small groups are worth having."""
    return {
        "noise_level": 0.2,
        "base_min_cluster_size": _CLUSTER_SIZES[0],
        "min_samples": 3,
        "n_neighbors": min(_NEIGHBORS, count - 1),
        "random_state": seed,
    }


def evoc_is_compiled() -> bool:
    """Whether EVoC's code has been compiled here: at its first use that takes two or three minutes."""
    elsewhere = os.environ.get("NUMBA_CACHE_DIR")
    spec = find_spec("evoc")
    if elsewhere:
        return any(Path(elsewhere).glob("**/float_nndescent.*.nbi"))
    return spec is not None and spec.origin is not None and any(Path(spec.origin).parent.glob("__pycache__/*.nbi"))


def _evoc(vectors: Any, parameters: dict[str, Any]) -> Labels | None:
    """EVoC's finest layer, if it has more than one cluster."""
    if not evoc_is_compiled():
        _LOG.warning("EVoC compiles itself at its first use: this takes two or three minutes, once.")
    with one_compiled_thread():
        model = library("evoc").EVoC(**parameters).fit(vectors)
    for layer in model.cluster_layers_:
        labels = _renumber([int(label) for label in layer])
        if max(labels) >= 1:
            return labels
    return None


def _reasons(vectors: Any, without_words: frozenset[int]) -> tuple[str, ...]:
    """Why a comment should be in no cluster, the strongest reasons only: there are at most MOST_OUTLIERS."""
    numpy = library("numpy")
    nearest = numpy.empty(len(vectors), dtype=numpy.float64)
    for row in range(len(vectors)):
        similar = vectors @ vectors[row]
        similar[row] = -1.0
        nearest[row] = round(float(similar.max()), _DIGITS)
    wordless = ~vectors.any(axis=1)
    wordless[sorted(without_words)] = True
    middle = numpy.median(nearest)
    deviation = numpy.median(numpy.abs(nearest - middle)) * 1.4826
    is_far = nearest < middle - _FAR * deviation
    ranked = sorted(numpy.flatnonzero(wordless | is_far), key=lambda row: (not wordless[row], nearest[row], row))
    chosen = {int(row) for row in ranked[: int(MOST_OUTLIERS * len(vectors))]}
    return tuple((WORDLESS if wordless[row] else ALONE) if row in chosen else "" for row in range(len(vectors)))


def _settle(labels: Labels, vectors: Any, reasons: tuple[str, ...]) -> Labels:
    """Comments with a reason are out; those without a cluster, or in one that is too small, are in the nearest."""
    numpy = library("numpy")
    inside = [OUTLIER if reason else label for label, reason in zip(labels, reasons, strict=True)]
    sizes = Counter(inside)
    least = min(_LEAST_CLUSTER, max((sizes[label] for label in sizes if label != OUTLIER), default=0))
    kept = sorted(label for label in sizes if label != OUTLIER and sizes[label] >= least)
    if not kept:
        return _renumber([OUTLIER if reason else 0 for reason in reasons])
    array = numpy.array(inside)
    middles = numpy.vstack([vectors[array == label].mean(axis=0) for label in kept])
    middles = middles / numpy.maximum(numpy.linalg.norm(middles, axis=1, keepdims=True), 1e-9)
    nearest = (vectors @ middles.T).round(_DIGITS).argmax(axis=1)
    known = set(kept)
    return _renumber(
        [
            OUTLIER if reasons[row] else label if label in known else kept[nearest[row]]
            for row, label in enumerate(inside)
        ]
    )


def _upwards(found: list[Labels], cutter: Cutter) -> list[Labels]:
    """Coarser layers on top, until the last is short: each cluster goes where the tree has most of its comments."""
    while (clusters := max(found[-1]) + 1) > (_COARSEST if len(found) > 1 else _WORTH_MERGING):
        cut = cutter(_fewer(clusters))
        places: dict[int, Counter[int]] = {}
        for label, place in zip(found[-1], cut, strict=True):
            places.setdefault(label, Counter())[place] += 1
        place_of = {label: min(seen, key=lambda place: (-seen[place], place)) for label, seen in places.items()}
        merged = _renumber([OUTLIER if label == OUTLIER else place_of[label] for label in found[-1]])
        if not 1 <= max(merged) < clusters - 1:
            break
        found = [*found, merged]
    return found


def _fewer(clusters: int) -> int:
    return max(3, round(clusters / _COARSER))


def _ward(points: Any) -> Any:
    return library("scipy.cluster.hierarchy").linkage(points, method="ward")


def _cut(tree: Any, parts: int) -> Labels:
    labels = library("scipy.cluster.hierarchy").fcluster(tree, parts, criterion="maxclust")
    return _renumber([int(label) for label in labels])


def _middles(labels: Labels, vectors: Any) -> Any:
    numpy = library("numpy")
    array = numpy.array(labels)
    return numpy.vstack([vectors[array == cluster].mean(axis=0) for cluster in range(max(labels) + 1)])


def _renumber(labels: list[int]) -> Labels:
    """The same groups, the largest first; of two alike, the one whose first comment comes first."""
    first: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for row, label in enumerate(labels):
        first.setdefault(label, row)
        sizes[label] = sizes.get(label, 0) + 1
    ranked = sorted((label for label in sizes if label != OUTLIER), key=lambda label: (-sizes[label], first[label]))
    numbers = {label: number for number, label in enumerate(ranked)} | {OUTLIER: OUTLIER}
    return tuple(numbers[label] for label in labels)


def _layers_of(found: list[Labels], vectors: Any, parameters: dict[str, Any], reasons: tuple[str, ...]) -> Layers:
    return Layers(tuple(found), tuple(_confidence(labels, vectors) for labels in found), parameters, reasons)


def _confidence(labels: Labels, vectors: Any) -> tuple[float, ...]:
    """How much closer a comment is to the middle of its own cluster than to the next one: 0.5 is undecided."""
    numpy = library("numpy")
    if max(labels, default=OUTLIER) < 0:
        return (0.0,) * len(labels)
    middles = _middles(labels, vectors)
    distances = numpy.linalg.norm(vectors[:, None, :] - middles[None, :, :], axis=2)
    found: list[float] = []
    for row, label in enumerate(labels):
        if label == OUTLIER:
            found.append(0.0)
            continue
        others = numpy.delete(distances[row], label)
        if len(others) == 0:
            found.append(1.0)
            continue
        own, other = float(distances[row][label]), float(others.min())
        found.append(round(other / (own + other), _DIGITS) if own + other else 0.5)
    return tuple(found)
