"""Results to items: the seven converters, by the names that Delphi has for them (S3.10).

1. Every item has the job's id first: a converter without one raises "job_id parameter is required".
2. A comment is known by its own id everywhere, never by its row.
3. Numbers are rounded to six digits: the same result is the same item, on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.pipelines.definition import JobIdRequired
from penstock.systems.delphi.analysis.clusters import OUTLIER, Layers
from penstock.systems.delphi.analysis.conversation import Conversation
from penstock.systems.delphi.analysis.embeddings import pack_vector
from penstock.systems.delphi.analysis.projection import Projection
from penstock.systems.delphi.analysis.topics import Topic, cluster_key
from penstock.systems.delphi.analysis.votes import CommentVotes, Opinions

Item = dict[str, Any]
_DIGITS: Final = 6
_SAMPLE_CHARACTERS: Final = 2_000
_DIVISIVE: Final = 0.5
"""From here on, at least a quarter of those who voted are on the other side."""
_MOST_LISTED: Final = 10


class DataConverter:
    """Pure: what is stored is decided here, and written elsewhere."""

    @staticmethod
    def create_conversation_meta(
        conversation_id: str,
        conversation: Conversation,
        layers: Layers,
        *,
        embedding_model: str,
        umap_parameters: Mapping[str, Any],
        processed_date: str,
        metadata: Mapping[str, Any] | None = None,
        participants: int | None = None,
        job_id: str | None = None,
    ) -> Item:
        """The configuration of a run: what it was made from, and how."""
        return {
            "job_id": required_job_id(job_id),
            "conversation_id": conversation_id,
            "processed_date": processed_date,
            "num_comments": len(conversation.comments),
            "num_participants": conversation.participants if participants is None else participants,
            "embedding_model": embedding_model,
            "umap_parameters": dict(umap_parameters),
            "evoc_parameters": dict(layers.parameters),
            "cluster_layers": [
                {
                    "layer_id": layer,
                    "num_clusters": layers.count(layer),
                    "description": _layer_description(layer, len(layers.labels)),
                }
                for layer in range(len(layers.labels))
            ],
            "metadata": dict(metadata or {}),
        }

    @staticmethod
    def batch_convert_embeddings(
        conversation_id: str, comment_ids: Sequence[int], vectors: Any, *, model: str, job_id: str | None = None
    ) -> list[Item]:
        """A packed vector for each comment, with its dimensions and its model."""
        job = required_job_id(job_id)
        return [
            {
                "job_id": job,
                "comment_id": comment_id,
                "conversation_id": conversation_id,
                "embedding": {"vector": pack_vector(vector), "dimensions": len(vector), "model": model},
            }
            for comment_id, vector in zip(comment_ids, vectors, strict=True)
        ]

    @staticmethod
    def batch_convert_umap_edges(
        conversation_id: str,
        comment_ids: Sequence[int],
        projection: Projection,
        layers: Layers,
        *,
        job_id: str | None = None,
    ) -> list[Item]:
        """The graph: a node is an edge from a comment to itself, and has its position on the map."""
        job = required_job_id(job_id)
        every_layer = list(range(len(layers.labels)))
        nodes = [
            {
                **_edge(job, conversation_id, comment_id, comment_id, weight=1, distance=0),
                "is_nearest_neighbor": False,
                "shared_cluster_layers": [layer for layer in every_layer if layers.labels[layer][row] != OUTLIER],
                "position": {"x": x, "y": y},
            }
            for row, (comment_id, (x, y)) in enumerate(zip(comment_ids, projection.positions, strict=True))
        ]
        edges = [
            {
                **_edge(
                    job,
                    conversation_id,
                    comment_ids[edge.first],
                    comment_ids[edge.second],
                    weight=edge.weight,
                    distance=edge.distance,
                ),
                "is_nearest_neighbor": edge.is_nearest,
                "shared_cluster_layers": [
                    layer
                    for layer in every_layer
                    if layers.labels[layer][edge.first] == layers.labels[layer][edge.second] != OUTLIER
                ],
            }
            for edge in projection.edges
        ]
        return nodes + edges

    @staticmethod
    def batch_convert_clusters(
        conversation_id: str,
        comment_ids: Sequence[int],
        layers: Layers,
        topics: Sequence[Topic],
        positions: Sequence[tuple[float, float]],
        *,
        said: Conversation | None = None,
        opinions: Opinions | None = None,
        job_id: str | None = None,
    ) -> list[Item]:
        """Where each comment is in every layer, however many there are; -1 is in no cluster.

        With what was said and how people voted on it, if that is given.
        """
        job = required_job_id(job_id)
        centroids = {topic.key: topic.centroid for topic in topics}
        items: list[Item] = []
        for row, comment_id in enumerate(comment_ids):
            item: Item = {
                "job_id": job,
                "comment_id": comment_id,
                "conversation_id": conversation_id,
                "is_outlier": layers.labels[0][row] == OUTLIER,
                "distance_to_centroid": {},
                "cluster_confidence": {},
            }
            for layer, labels in enumerate(layers.labels):
                item[f"layer{layer}_cluster_id"] = labels[row]
                if labels[row] != OUTLIER:
                    distance = math.dist(positions[row], centroids[cluster_key(layer, labels[row])])
                    item["distance_to_centroid"][f"layer{layer}"] = round(distance, _DIGITS)
                    item["cluster_confidence"][f"layer{layer}"] = layers.confidence[layer][row]
            if item["is_outlier"] and layers.reasons:
                item["outlier_reason"] = layers.reasons[row]
            if said is not None:
                item |= {"comment_text": said.comments[row].text, "language": said.comments[row].language}
            if opinions is not None:
                item["votes"] = _votes(opinions.comments[row])
            items.append(item)
        return items

    @staticmethod
    def batch_convert_topics(
        conversation_id: str,
        topics: Sequence[Topic],
        names: Mapping[str, str],
        comments: Sequence[str],
        *,
        said: Conversation | None = None,
        opinions: Opinions | None = None,
        job_id: str | None = None,
    ) -> list[Item]:
        """The tree of clusters with their keywords. The coarser layer is the parent."""
        votes = (
            {}
            if said is None or opinions is None
            else {topic.key: _topic_votes(topic, said, opinions) for topic in topics}
        )
        job = required_job_id(job_id)
        return [
            {
                **_topic_item(job, conversation_id, topic, comments),
                "topic_label": names[topic.key],
                "centroid_coordinates": {"x": topic.centroid[0], "y": topic.centroid[1]},
                "parent_cluster": _reference(topic.layer + 1, topic.parent),
                "child_clusters": [_reference(topic.layer - 1, child) for child in topic.children],
                **({"votes": votes[topic.key]} if topic.key in votes else {}),
            }
            for topic in topics
        ]

    @staticmethod
    def batch_convert_cluster_characteristics(
        conversation_id: str, topics: Sequence[Topic], comments: Sequence[str], *, job_id: str | None = None
    ) -> list[Item]:
        """What each cluster says: its words, their scores, and its most typical comments."""
        job = required_job_id(job_id)
        return [_topic_item(job, conversation_id, topic, comments) for topic in topics]

    @staticmethod
    def batch_convert_llm_topic_names(
        conversation_id: str,
        topics: Sequence[Topic],
        names: Mapping[str, str],
        *,
        model_name: str,
        created_at: str,
        job_id: str | None = None,
    ) -> list[Item]:
        """The names, and who gave them."""
        job = required_job_id(job_id)
        return [
            {
                "job_id": job,
                "topic_key": topic.key,
                "conversation_id": conversation_id,
                "layer_id": topic.layer,
                "cluster_id": topic.cluster,
                "topic_name": names[topic.key],
                "model_name": model_name,
                "created_at": created_at,
            }
            for topic in topics
        ]


def required_job_id(job_id: str | None) -> str:
    """Raises JobIdRequired: an item without its job could never be found again."""
    if not job_id:
        raise JobIdRequired
    return job_id


def edge_id(first: int, second: int) -> str:
    """The same for both directions."""
    return f"{min(first, second)}_{max(first, second)}"


def _edge(job: str, conversation_id: str, first: int, second: int, *, weight: float, distance: float) -> Item:
    return {
        "job_id": job,
        "edge_id": edge_id(first, second),
        "conversation_id": conversation_id,
        "source_id": min(first, second),
        "target_id": max(first, second),
        "weight": weight,
        "distance": distance,
    }


def _topic_item(job: str, conversation_id: str, topic: Topic, comments: Sequence[str]) -> Item:
    return {
        "job_id": job,
        "cluster_key": topic.key,
        "conversation_id": conversation_id,
        "layer_id": topic.layer,
        "cluster_id": topic.cluster,
        "size": topic.size,
        "top_words": [keyword.text for keyword in topic.keywords],
        "top_tfidf_scores": [keyword.score for keyword in topic.keywords],
        "sample_comments": [comments[row][:_SAMPLE_CHARACTERS] for row in topic.samples],
    }


def _votes(votes: CommentVotes) -> Item:
    item: Item = {
        "agrees": votes.agrees,
        "disagrees": votes.disagrees,
        "passes": votes.passes,
        "agreement": votes.agreement,
        "division": votes.division,
    }
    if votes.group_agreement:
        item["group_agreement"] = list(votes.group_agreement)
    if votes.consensus:
        item["consensus"] = votes.consensus
    return item


def _topic_votes(topic: Topic, said: Conversation, opinions: Opinions) -> Item:
    """Agreement and division on average; the comments that all groups share, and those that split people most."""
    rows = [row for row in topic.rows if opinions.comments[row].voters]
    mean = {
        name: round(sum(getattr(opinions.comments[row], name) for row in rows) / max(1, len(rows)), _DIGITS)
        for name in ("agreement", "division")
    }
    ranked = sorted(rows, key=lambda row: (-weight_of_division(opinions.comments[row]), row))
    divisive = [
        row for row in ranked if opinions.comments[row].division >= _DIVISIVE and not opinions.comments[row].consensus
    ]
    consensus = sorted(
        (row for row in rows if opinions.comments[row].consensus),
        key=lambda row: (-opinions.comments[row].voters, row),
    )
    return {
        **mean,
        "votes": sum(opinions.comments[row].voters for row in rows),
        "consensus_comments": [said.comments[row].id for row in consensus[:_MOST_LISTED]],
        "divisive_comments": [said.comments[row].id for row in divisive[:_MOST_LISTED]],
    }


def weight_of_division(votes: CommentVotes) -> float:
    """Halves of many voters are more of a division than halves of two."""
    return votes.division * math.log(1 + votes.voters)


def _reference(layer: int, cluster: int | None) -> dict[str, int] | None:
    return None if cluster is None else {"layer_id": layer, "cluster_id": cluster}


def _layer_description(layer: int, count: int) -> str:
    if count == 1:
        return "the only layer"
    return "the finest layer" if layer == 0 else "the coarsest layer" if layer == count - 1 else f"layer {layer}"
