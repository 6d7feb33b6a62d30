"""Delphi's tables: seven of a run's results (S3.1–5) and the queue of jobs (S3.13).

Every result has HASH `job_id`, its own natural RANGE, and ConversationIdIndex with the same RANGE. Two exceptions: the
configuration's RANGE is `conversation_id` itself, and an index cannot have one attribute twice, so its index is sorted
by `job_id`; and embeddings are large, so their index has keys only (ALL in compat). Their vectors are also a list, with
a vector index that `similar` searches (not in compat): padded with zeros to one length, which changes no product.
"""

from __future__ import annotations

from penstock.systems.schema_variants import SchemaVariant, check_variant
from penstock.tables.definitions.definition import Index, Table, VectorIndex

CONVERSATION_INDEX = "ConversationIdIndex"
VECTOR_INDEX = "VectorIndex"
VECTOR = "vector"
VECTOR_DIMENSIONS = 512
"""The most that any embedder gives; shorter vectors are padded."""
QUEUE = "Delphi_JobQueue"
QUEUE_CONVERSATIONS = "ConversationIndex"
CLAIM_INDEX = "ClaimIndex"
CLAIM_SHARD = "claim#shard"
CLAIM_ORDER = "claim_order"

RANGES = {
    "Delphi_UMAPConversationConfig": "conversation_id:S",
    "Delphi_CommentEmbeddings": "comment_id:N",
    "Delphi_CommentHierarchicalClusterAssignments": "comment_id:N",
    "Delphi_CommentClustersStructureKeywords": "cluster_key:S",
    "Delphi_UMAPGraph": "edge_id:S",
    "Delphi_CommentClustersFeatures": "cluster_key:S",
    "Delphi_CommentClustersLLMTopicNames": "topic_key:S",
}
"""The seven tables of results, and what each is sorted by."""


def tables(layout: SchemaVariant = "safe") -> tuple[Table, ...]:
    """The seven tables and the queue."""
    check_variant(layout)
    return (*(_results(name, layout) for name in RANGES), queue(layout))


def _results(name: str, layout: SchemaVariant) -> Table:
    natural = RANGES[name]
    beside = "job_id:S" if natural == "conversation_id:S" else natural
    keys_only = name == "Delphi_CommentEmbeddings" and layout == "safe"
    projection = "KEYS_ONLY" if keys_only else "ALL"
    index = Index(CONVERSATION_INDEX, "conversation_id:S", beside, projection=projection)
    vectors = VectorIndex(
        VECTOR_INDEX,
        VECTOR,
        dimensions=VECTOR_DIMENSIONS,
        distance="dot_product",
        partition="job_id:S",
        projection="KEYS_ONLY",
    )
    return Table(name, ("job_id:S", natural), indexes=[index], vector_indexes=[vectors] if keys_only else [])


def queue(layout: SchemaVariant = "safe") -> Table:
    """In safe, only jobs to look at are in ClaimIndex: the most urgent first, then the oldest. Old jobs expire."""
    indexes = [
        Index("StatusCreatedIndex", "status:S", "created_at:S"),
        Index(QUEUE_CONVERSATIONS, "conversation_id:S", "created_at:S"),
        Index("JobTypeIndex", "job_type:S", "priority:N"),
        Index("WorkerStatusIndex", "worker_id:S", "status:S"),
    ]
    if layout == "safe":
        indexes.append(Index(CLAIM_INDEX, f"{CLAIM_SHARD}:S", f"{CLAIM_ORDER}:S", projection="KEYS_ONLY"))
    return Table(QUEUE, "job_id:S", indexes=indexes, ttl="ttl" if layout == "safe" else None)
