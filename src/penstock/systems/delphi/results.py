"""The results of runs, in the seven tables: written whole, read by job, by key and by conversation.

1. A run is complete when its configuration is there; it is written after everything else.
2. Last of all, the conversation's pointer is set to it: who reads by conversation sees a whole run, or none.
3. The pointer never goes back: of two runs that end together, the one that was processed later is the latest.
4. Writing a run again first withdraws it, and leaves nothing of what it was before.

The pointer is an item of Delphi_UMAPConversationConfig, under `latest#{conversation_id}` for both keys: no conversation
has that id, so that no reader of runs meets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.client.database import Database
from penstock.client.items.expressions import F
from penstock.client.items.failures import ConditionFailed
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.systems.delphi import tables
from penstock.systems.delphi.analysis.embeddings import unpack_vector
from penstock.systems.delphi.converter import Item, required_job_id
from penstock.tables.apply.apply import ensure_tables
from penstock.wire import float32

CONFIG: Final = "Delphi_UMAPConversationConfig"
EMBEDDINGS: Final = "Delphi_CommentEmbeddings"
ASSIGNMENTS: Final = "Delphi_CommentHierarchicalClusterAssignments"
STRUCTURE: Final = "Delphi_CommentClustersStructureKeywords"
GRAPH: Final = "Delphi_UMAPGraph"
FEATURES: Final = "Delphi_CommentClustersFeatures"
NAMES: Final = "Delphi_CommentClustersLLMTopicNames"

_LATEST: Final = "latest#"


class RunNotFound(PenstockError):
    """There is no such run, or it is not complete."""


@dataclass(frozen=True, slots=True)
class Written:
    """How many items a table got, and how many of an earlier writing of the same job it lost."""

    table: str
    put: int
    deleted: int


class Results:
    """The seven tables of one database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def create_tables(self) -> None:
        """Makes the tables that are not there; those that are as they should be are not touched."""
        definitions = tables.tables()
        try:
            for table in definitions:
                self._db.execute("DescribeTable", {"TableName": table.name})
        except ResourceNotFoundException:
            ensure_tables(self._db, definitions)

    def identity(self) -> list[str]:
        """Which tables these are: others after they were deleted and made again, and those have nothing of any run."""
        found = []
        for name in sorted(tables.RANGES):
            table = self._db.execute("DescribeTable", {"TableName": name})["Table"]
            found.append(f"{name} {table.get('TableId') or table.get('CreationDateTime', '')}")
        return found

    # ── the three reads (S3.8) ───────────────────────────────────────────────────────────────────

    def of_job(self, table: str, job_id: str | None) -> Iterator[Item]:
        """All items of a job, in the order of their own keys, page by page."""
        return iter(self._db.table(check_table(table)).query(job_id=required_job_id(job_id)))

    def one(self, table: str, job_id: str | None, key: str | int) -> Item | None:
        """One item: of a comment, a cluster, an edge or a topic."""
        return self._db.table(check_table(table)).get({"job_id": required_job_id(job_id), natural_key(table): key})

    def of_conversation(self, table: str, conversation_id: str) -> Iterator[Item]:
        """Items of every run of a conversation, where the job is not known; of embeddings, only the keys."""
        found = self._db.table(check_table(table)).query(
            index=tables.CONVERSATION_INDEX, conversation_id=conversation_id
        )
        return iter(found)

    # ── runs ─────────────────────────────────────────────────────────────────────────────────────

    def latest_job_id(self, conversation_id: str) -> str:
        """The job of the newest complete run. Raises RunNotFound."""
        pointer = self._db.table(CONFIG).get(_pointer_key(conversation_id), consistent=True)
        if pointer is None:
            raise RunNotFound(
                f"There is no complete run of the conversation {conversation_id!r}: "
                "`penstock delphi runs` lists those that there are."
            )
        return str(pointer["latest_job_id"])

    def latest(self, table: str, conversation_id: str) -> Iterator[Item]:
        """The items of the newest complete run of a conversation."""
        return self.of_job(table, self.latest_job_id(conversation_id))

    def runs(self, conversation_id: str | None = None) -> list[Item]:
        """The configurations of complete runs, the newest first; of all conversations without one."""
        if conversation_id is not None:
            found = list(self.of_conversation(CONFIG, conversation_id))
        else:
            found = [item for item in self._db.table(CONFIG).scan() if not _is_pointer(item)]
        return sorted(found, key=lambda item: (item["processed_date"], item["job_id"]), reverse=True)

    def config(self, job_id: str | None) -> Item:
        """Raises RunNotFound for a run that is not complete."""
        for item in self.of_job(CONFIG, job_id):
            return item
        raise RunNotFound(f"There is no complete run {job_id}: it has not ended, or its id is another.")

    def topics(self, job_id: str | None) -> list[Item]:
        """The clusters of a run, coarsest layer first, the largest first."""
        found = list(self.of_job(STRUCTURE, job_id))
        return sorted(found, key=lambda item: (-item["layer_id"], item["cluster_id"]))

    def vector(self, job_id: str | None, comment_id: int) -> tuple[float, ...]:
        """A comment's embedding. Raises RunNotFound."""
        item = self.one(EMBEDDINGS, job_id, comment_id)
        if item is None:
            raise RunNotFound(f"The run {job_id} has no embedding of a comment {comment_id}.")
        return unpack_vector(item["embedding"]["vector"], int(item["embedding"]["dimensions"]))

    def has_vector_index(self) -> bool:
        """Whether the vectors can be searched by the database: not in compat, nor in tables of older programs."""
        described = self._db.execute("DescribeTable", {"TableName": EMBEDDINGS})["Table"]
        return any(
            one["IndexName"] == tables.VECTOR_INDEX and one["IndexStatus"] == "ACTIVE"
            for one in described.get("VectorIndexes", ())
        )

    def nearest(self, job_id: str | None, vector: Sequence[float], most: int) -> list[tuple[int, float]]:
        """The comments of a run with the largest products of vectors, by the vector index, and those products."""
        padded = [*map(float, vector)] + [0.0] * (tables.VECTOR_DIMENSIONS - len(vector))
        matches = self._db.table(EMBEDDINGS).search(
            padded, top=most, index=tables.VECTOR_INDEX, where=F("job_id") == required_job_id(job_id)
        )
        return [(int(one.item["comment_id"]), one.score) for one in matches]

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def write(self, job_id: str | None, table: str, items: Iterable[Item]) -> Written:
        """Puts all items of a job into a table, and takes out what else the job had there."""
        job, name = required_job_id(job_id), natural_key(table)
        handle = self._db.table(table, key=("job_id:S", tables.RANGES[table]))
        left = {item[name] for item in handle.query(job_id=job, select=[name])}
        put = 0
        if table == EMBEDDINGS and self.has_vector_index():
            items = map(_with_vector, items)
        with handle.batch() as batch:
            for item in items:
                batch.put(item)
                left.discard(item[name])
                put += 1
            for value in sorted(left):
                batch.delete({"job_id": job, name: value})
        return Written(table, put, len(left))

    def withdraw(self, job_id: str | None) -> None:
        """Before a run is written again: it is not complete, and not the latest; the one before it is."""
        job = required_job_id(job_id)
        for config in list(self.of_job(CONFIG, job)):
            # In this order: whoever dies in between leaves a run that is complete, and does it again.
            self._repoint(config["conversation_id"], job)
            self._db.table(CONFIG).delete({"job_id": job, "conversation_id": config["conversation_id"]})

    def _repoint(self, conversation_id: str, job: str) -> None:
        """From this job to the newest other run of the conversation, or to none."""
        others = [run for run in self.runs(conversation_id) if run["job_id"] != job]
        try:
            if others:
                self._db.table(CONFIG).put(_pointer(others[0]), if_=F("latest_job_id") == job)
            else:
                self._db.table(CONFIG).delete(_pointer_key(conversation_id), if_=F("latest_job_id") == job)
        except ConditionFailed:
            return  # another run is the latest

    def publish(self, config: Mapping[str, Any]) -> bool:
        """Makes a run complete, then the latest; False where a later one is the latest already."""
        required_job_id(config.get("job_id"))
        table = self._db.table(CONFIG)
        table.put(dict(config))
        older = F("latest_job_id").missing() | (F("processed_date") <= config["processed_date"])
        try:
            table.put(_pointer(config), if_=older)
        except ConditionFailed as failed:
            return failed.item is not None and failed.item.get("latest_job_id") == config["job_id"]
        return True


def natural_key(table: str) -> str:
    """The name of what a table is sorted by: `comment_id`, `cluster_key`, …"""
    return tables.RANGES[check_table(table)].partition(":")[0]


def check_table(table: str) -> str:
    if table not in tables.RANGES:
        raise PenstockError(f"{table} is none of Delphi's tables: {', '.join(tables.RANGES)}.")
    return table


def _pointer_key(conversation_id: str) -> Item:
    return {"job_id": _LATEST + conversation_id, "conversation_id": _LATEST + conversation_id}


def _pointer(config: Mapping[str, Any]) -> Item:
    key = _pointer_key(config["conversation_id"])
    return {**key, "latest_job_id": config["job_id"], "processed_date": config["processed_date"]}


def _is_pointer(item: Mapping[str, Any]) -> bool:
    return str(item["job_id"]).startswith(_LATEST)


def _with_vector(item: Item) -> Item:
    """An embedding, with its vector as a list too where that is not longer than the index holds."""
    packed = item["embedding"]
    if int(packed["dimensions"]) > tables.VECTOR_DIMENSIONS:
        return item
    short = [float(float32.shortest_text(one)) for one in unpack_vector(packed["vector"], int(packed["dimensions"]))]
    return {**item, tables.VECTOR: short + [0.0] * (tables.VECTOR_DIMENSIONS - len(short))}
