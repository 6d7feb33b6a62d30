"""Vectors to layers of clusters, the finest first.

1. A layer gives each comment a cluster, 0 and up, or OUTLIER. In each layer the larger cluster has the smaller number.
2. Every layer has fewer clusters than the one before; the last is short enough to read.
3. EVoC finds the layers of a conversation. It wants crowds: for a short conversation, or where it finds none, the
   layers are cuts through one tree of all comments.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

from penstock.errors import PenstockError
from penstock.systems.delphi.analysis.libraries import library
from penstock.systems.delphi.analysis.projection import condense_vectors

_LOG = logging.getLogger("penstock.delphi")
OUTLIER: Final = -1
CLUSTERERS: Final = ("auto", "evoc", "tree")
Clusterer = Literal["auto", "evoc", "tree"]

SHORT_CONVERSATION: Final = 150
"""Below it, a density of comments is chance."""
_MOST_OUTLIERS: Final = 0.35
_MORE_OUTLIERS: Final = 1.2
_COARSEST: Final = 8
"""A reader takes in about so many topics at a glance."""
_WORTH_MERGING: Final = 6
_LEAST_TREE: Final = 6
_LEAST_DIMENSIONS: Final = 5
"""EVoC condenses to four."""
_COMMENTS_A_CLUSTER: Final = 8
_COARSER: Final = 2.5
_NEIGHBORS: Final = 15
_VOTERS: Final = 7
_VOTES: Final = 3
_DIGITS: Final = 6

Labels = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layers:
    """`labels[layer][row]`, and how sure each is, 0 to 1."""

    labels: tuple[Labels, ...]
    confidence: tuple[tuple[float, ...], ...]
    parameters: dict[str, Any] = field(default_factory=dict)

    def count(self, layer: int) -> int:
        """Clusters of the layer."""
        return max(self.labels[layer], default=OUTLIER) + 1

    def members(self, layer: int, cluster: int) -> list[int]:
        return [row for row, label in enumerate(self.labels[layer]) if label == cluster]


def cluster_vectors(vectors: Any, seed: int, clusterer: Clusterer = "auto") -> Layers:
    """The layers of these rows. The same rows and seed give the same layers."""
    count = len(vectors)
    if clusterer not in CLUSTERERS:
        raise PenstockError(f"There is no clusterer {clusterer!r}: there are {', '.join(CLUSTERERS)}.")
    if count < _LEAST_TREE:
        return _layers_of([(0,) * count], vectors, {"method": "one"})
    wants_evoc = clusterer == "evoc" or (clusterer == "auto" and count >= SHORT_CONVERSATION)
    if wants_evoc and vectors.shape[1] >= _LEAST_DIMENSIONS:
        parameters = _evoc_parameters(count, seed)
        found = _evoc(vectors, parameters)
        if found:
            points = condense_vectors(vectors, seed) if max(found[-1]) >= _COARSEST else vectors
            return _layers_of(_upwards(found, points), vectors, {"method": "evoc", **parameters})
    tree = {"method": "tree", "linkage": "ward", "random_state": seed}
    return _layers_of(_tree(condense_vectors(vectors, seed)), vectors, tree)


def _evoc_parameters(count: int, seed: int) -> dict[str, Any]:
    """Comments are short and say much else: little of them is noise, and small groups are worth having."""
    return {
        "noise_level": 0.2,
        "base_min_cluster_size": max(4, min(20, count // 60)),
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


def _evoc(vectors: Any, parameters: dict[str, Any]) -> list[Labels]:
    """EVoC's layers, the finest first; those that leave most comments out are not worth having."""
    if not evoc_is_compiled():
        _LOG.warning("EVoC compiles itself at its first use: this takes two or three minutes, once.")
    model = library("evoc").EVoC(**parameters).fit(vectors)
    found: list[Labels] = []
    for layer in model.cluster_layers_:
        labels = _join_outliers([int(label) for label in layer], vectors)
        if not found:
            worth = max(labels) >= 1 and labels.count(OUTLIER) <= _MOST_OUTLIERS * len(labels)
        else:
            # One that leaves out much of what the finer has a place for is worse than a merger of the finer one's.
            allowed = found[0].count(OUTLIER) * _MORE_OUTLIERS + 3
            worth = 3 <= max(labels) + 1 <= max(found[-1]) and labels.count(OUTLIER) <= allowed
            labels = _lift(found[-1], labels, vectors) if worth else labels
        if worth:
            found.append(labels)
    return found


def _join_outliers(labels: list[int], vectors: Any) -> Labels:
    """An outlier most of whose nearest neighbours are in one cluster belongs there after all."""
    numpy = library("numpy")
    if not 0 < labels.count(OUTLIER) < len(labels):
        return _renumber(labels)
    joined = list(labels)
    for row in [row for row, label in enumerate(labels) if label == OUTLIER]:
        nearest = numpy.argsort(-(vectors @ vectors[row]), kind="stable")[: _VOTERS + 1]
        votes = [labels[other] for other in nearest if other != row and labels[other] != OUTLIER]
        best = max(votes, key=lambda label: (votes.count(label), -label), default=OUTLIER)
        if votes.count(best) >= _VOTES:
            joined[row] = best
    return _renumber(joined)


def _lift(finer: Labels, coarser: Labels, vectors: Any) -> Labels:
    """The coarser layer, in which a comment that the finer one has a place for has one too: its cluster-mates', or the
    nearest."""
    numpy = library("numpy")
    middles = _middles(coarser, vectors)
    lifted = list(coarser)
    for cluster in range(max(finer) + 1):
        rows = [row for row, label in enumerate(finer) if label == cluster]
        mates = [coarser[row] for row in rows if coarser[row] != OUTLIER]
        distances = numpy.linalg.norm(middles - vectors[rows].mean(axis=0), axis=1)
        place = max(sorted(set(mates)), key=mates.count) if mates else int(distances.argmin())
        for row in rows:
            if lifted[row] == OUTLIER:
                lifted[row] = place
    return _renumber(lifted)


def _tree(points: Any) -> list[Labels]:
    """Cuts through Ward's tree, each with fewer parts."""
    tree = _ward(points)
    found = [_cut(tree, max(2, round(len(points) / _COMMENTS_A_CLUSTER)))]
    while (clusters := max(found[-1]) + 1) >= _WORTH_MERGING:
        coarser = _cut(tree, _fewer(clusters))
        if max(coarser) + 1 >= clusters:
            break
        found.append(coarser)
    return found


def _upwards(found: list[Labels], points: Any) -> list[Labels]:
    """Coarser layers on top, until the last is short: clusters whose middles lie together become one."""
    while (clusters := max(found[-1]) + 1) > _COARSEST:
        groups = _cut(_ward(_middles(found[-1], points)), _fewer(clusters))
        merged = _renumber([OUTLIER if label == OUTLIER else groups[label] for label in found[-1]])
        if max(merged) + 1 >= clusters:
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


def _layers_of(found: list[Labels], vectors: Any, parameters: dict[str, Any]) -> Layers:
    return Layers(tuple(found), tuple(_confidence(labels, vectors) for labels in found), parameters)


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
