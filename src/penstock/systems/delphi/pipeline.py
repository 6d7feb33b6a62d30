"""From a comments.csv to all seven tables, in steps that a killed run does not repeat (S3.4, S3.6, S3.12).

    read → vote → embed → project → cluster → describe → name → draw → write → publish

The tables belong to the steps `write` and `publish`: before them nothing of a run is to be seen, after them all of it.
What goes from step to step is JSON in files: a run that is killed continues with exactly what was there.
"""

from __future__ import annotations

import dataclasses
import io
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from penstock.clock import Clock, utc_text
from penstock.jobs.store.store import JobStore
from penstock.leases import DEFAULT_LEASE_SECONDS
from penstock.pipelines import Pipeline, PipelineFile, PipelineReport, StepContext, StepReport
from penstock.systems.delphi.analysis import map_picture
from penstock.systems.delphi.analysis.clusters import Clusterer, Layers, cluster_vectors
from penstock.systems.delphi.analysis.conversation import (
    BadConversation,
    Comment,
    Conversation,
    Skipped,
    parse_conversation,
)
from penstock.systems.delphi.analysis.embeddings import DEFAULT_EMBEDDER, embedder_named
from penstock.systems.delphi.analysis.keywords import Keyword, wordless_rows
from penstock.systems.delphi.analysis.languages import AUTO, check_language, detect_languages
from penstock.systems.delphi.analysis.libraries import check_installed, library, one_thread
from penstock.systems.delphi.analysis.projection import Edge, Projection, project_vectors
from penstock.systems.delphi.analysis.topics import KeywordNamer, Namer, Topic, describe_topics, distinct_names
from penstock.systems.delphi.analysis.votes import (
    SUMMARY_FILE,
    VOTES_FILE,
    CommentVotes,
    Opinions,
    parse_summary,
    parse_votes,
    path_beside,
    sum_up,
    without_votes,
)
from penstock.systems.delphi.converter import DataConverter, Item
from penstock.systems.delphi.results import ASSIGNMENTS, EMBEDDINGS, FEATURES, GRAPH, NAMES, STRUCTURE, Results

JOB_ID_VARIABLE: Final = "DELPHI_JOB_ID"
REPORT_ID_VARIABLE: Final = "DELPHI_REPORT_ID"
DEFAULT_SEED: Final = 42
_PARAMETERS: Final = {
    "seed": DEFAULT_SEED,
    "embedder": DEFAULT_EMBEDDER,
    "clusterer": "auto",
    "language": AUTO,
    "votes": None,
    "summary": None,
    "namer": KeywordNamer.model_name,
    "report_id": "",
}
_TOLD: Final = ("model", "seed", "namer", "report_id")
_MADE: Final = ("conversation", "opinions", "vectors", "map", "layers", "topics", "names")
_WRITTEN: Final = ("written", "written_at")
_MOST_BYTES: Final = 1 << 30
"""Of one file between steps: 50,000 comments have about 200 MB of vectors and graph."""

Tell = Callable[[StepReport], None]


@dataclass(frozen=True, slots=True)
class Delphi:
    """Runs, on one store of jobs; their results are in the same database."""

    store: JobStore
    namer: Namer = field(default_factory=KeywordNamer)

    @property
    def results(self) -> Results:
        return Results(self.store.db)

    def new_job_id(self) -> str:
        """DELPHI_JOB_ID, else pipeline_run_{uuid4}: made once, and carried through everything."""
        return self._pipeline().new_job_id()

    def run(
        self,
        comments: Path,
        *,
        conversation_id: str,
        job_id: str | None = None,
        seed: int = DEFAULT_SEED,
        embedder: str = DEFAULT_EMBEDDER,
        clusterer: Clusterer = "auto",
        language: str = AUTO,
        report_id: str = "",
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        wait_seconds: float = 0.0,
        tell: Tell = lambda report: None,
    ) -> PipelineReport:
        """Runs the job, or goes on with it. Raises JobIdRequired, BadConversation, ExtraMissing, PipelineHeld.

        Votes and summary are those of the export that `comments` is the comments.csv of, if it has them.
        """
        check_installed(embedder_named(embedder).library)
        check_language(language)
        if not conversation_id or conversation_id.startswith("latest#"):
            raise BadConversation(f"{conversation_id!r} is no id of a conversation: give it a name of its own.")
        self.results.create_tables()
        inputs = {
            "comments": comments,
            "conversation_id": conversation_id,
            "seed": seed,
            "embedder": embedder,
            "clusterer": clusterer,
            "language": language,
            "votes": path_beside(comments, VOTES_FILE),
            "summary": path_beside(comments, SUMMARY_FILE),
            "namer": self.namer.model_name,
            "report_id": report_id,
            "tables": self.results.identity(),
        }
        return self._pipeline().run(
            self.store, job_id=job_id, inputs=inputs, lease_seconds=lease_seconds, wait_seconds=wait_seconds, tell=tell
        )

    def _pipeline(self) -> Pipeline:
        return steps(self.results, self.namer, self.store.clock)


def steps(results: Results, namer: Namer, clock: Clock) -> Pipeline:
    """The pipeline, whose last steps write into these tables."""
    pipeline = Pipeline(
        "delphi",
        inputs=("comments", "conversation_id", "tables"),
        parameters=_PARAMETERS,
        job_id_variable=JOB_ID_VARIABLE,
        job_id_prefix="pipeline_run_",
    )
    asked = namer
    pipeline.step(inputs=("comments", "language"), outputs=("conversation",))(read)
    pipeline.step(inputs=("conversation", "votes", "summary", "seed"), outputs=("opinions",))(vote)
    pipeline.step(inputs=("conversation", "embedder", "seed"), outputs=("vectors", "model"))(embed)
    pipeline.step(inputs=("vectors", "seed"), outputs=("map",))(project)
    pipeline.step(inputs=("conversation", "vectors", "seed", "clusterer"), outputs=("layers",))(cluster)
    pipeline.step(inputs=("conversation", "vectors", "map", "layers"), outputs=("topics",))(describe)

    @pipeline.step(inputs=("conversation", "topics", "namer"), outputs=("names",))
    def name(context: StepContext, conversation: PipelineFile, topics: PipelineFile, namer: str) -> dict[str, Any]:
        return _name_topics(context, asked, conversation, topics, clock)

    pipeline.step(inputs=("conversation", "opinions", "map", "layers", "topics", "names"), outputs=("svg", "png"))(draw)

    @pipeline.step(
        inputs=("conversation_id", *_MADE, "model", "tables"),
        outputs=_WRITTEN,
    )
    def write(context: StepContext, conversation_id: str, tables: list[str], **made: Any) -> dict[str, Any]:
        results.withdraw(context.job_id)
        counts: dict[str, int] = {}
        converted = items_of(context.job_id, conversation_id, **made)
        for place, (table, items) in enumerate(converted.items()):
            counts[table] = results.write(context.job_id, table, items).put
            context.progress(100 * (place + 1) / len(converted), f"{table}: {counts[table]:,} items")
        # What was withdrawn has to be published again, even if it came out the same: the time is always another.
        return {"written": counts, "written_at": utc_text(clock.now())}

    @pipeline.step(
        inputs=("conversation_id", "conversation", "opinions", "map", "layers", *_TOLD, *_WRITTEN), outputs=("config",)
    )
    def publish(context: StepContext, conversation_id: str, **made: Any) -> dict[str, Any]:
        config = _config(context.job_id, conversation_id, utc_text(clock.now()), **made)
        results.publish(config)
        return config

    return pipeline


# ── the steps that touch no table ────────────────────────────────────────────────────────────────


def read(context: StepContext, comments: PipelineFile, language: str) -> PipelineFile:
    conversation = parse_conversation(comments.read(limit=_MOST_BYTES))
    if not conversation.comments:
        raise BadConversation("The conversation has no comment that is neither blank nor moderated out.")
    codes = detect_languages([comment.text for comment in conversation.comments], language)
    told = [dataclasses.replace(one, language=code) for one, code in zip(conversation.comments, codes, strict=True)]
    context.log(f"{len(told):,} comments, {len(conversation.skipped):,} left out", languages=dict(Counter(codes)))
    return context.save("conversation.json", dumped(dataclasses.replace(conversation, comments=tuple(told))))


def vote(
    context: StepContext,
    conversation: PipelineFile,
    votes: PipelineFile | None,
    summary: PipelineFile | None,
    seed: int,
) -> PipelineFile:
    said = conversation_of(_bytes(conversation))
    about = {} if summary is None else parse_summary(_bytes(summary))
    if votes is None:
        opinions = without_votes(said, about)
    else:
        with one_thread():
            opinions = sum_up(parse_votes(_bytes(votes), [comment.id for comment in said.comments]), about, seed)
    context.log(f"{opinions.participants:,} participants", groups=list(opinions.groups))
    return context.save("opinions.json", dumped(opinions))


def embed(context: StepContext, conversation: PipelineFile, embedder: str, seed: int) -> dict[str, Any]:
    texts, codes = _texts(conversation_of(_bytes(conversation)))
    with one_thread():
        fitted = embedder_named(embedder).fit(texts, codes, seed)
        return {"vectors": context.save("vectors.npy", dumped_vectors(fitted.vectors)), "model": fitted.name}


def project(context: StepContext, vectors: PipelineFile, seed: int) -> PipelineFile:
    with one_thread():
        return context.save("map.json", dumped(project_vectors(vectors_of(_bytes(vectors)), seed)))


def cluster(
    context: StepContext, conversation: PipelineFile, vectors: PipelineFile, seed: int, clusterer: Clusterer
) -> PipelineFile:
    wordless = wordless_rows(*_texts(conversation_of(_bytes(conversation))))
    with one_thread():
        layers = cluster_vectors(vectors_of(_bytes(vectors)), seed, clusterer, wordless)
    context.log(f"{len(layers.labels)} layers", clusters=[layers.count(layer) for layer in range(len(layers.labels))])
    return context.save("layers.json", dumped(layers))


def describe(
    context: StepContext, conversation: PipelineFile, vectors: PipelineFile, map: PipelineFile, layers: PipelineFile
) -> PipelineFile:
    texts, codes = _texts(conversation_of(_bytes(conversation)))
    positions = projection_of(_bytes(map)).positions
    with one_thread():
        topics = describe_topics(layers_of(_bytes(layers)), texts, vectors_of(_bytes(vectors)), positions, codes)
    return context.save("topics.json", dumped(topics))


def draw(
    context: StepContext,
    conversation: PipelineFile,
    opinions: PipelineFile,
    map: PipelineFile,
    layers: PipelineFile,
    topics: PipelineFile,
    names: Mapping[str, Any],
) -> dict[str, PipelineFile]:
    scene = map_picture.arrange(
        conversation_of(_bytes(conversation)),
        opinions_of(_bytes(opinions)),
        projection_of(_bytes(map)),
        layers_of(_bytes(layers)),
        topics_of(_bytes(topics)),
        names["names"],
    )
    return {
        "svg": context.save("map.svg", map_picture.svg(scene).encode()),
        "png": context.save("map.png", map_picture.png(scene)),
    }


def _name_topics(
    context: StepContext, namer: Namer, conversation: PipelineFile, topics: PipelineFile, clock: Clock
) -> dict[str, Any]:
    """A name is asked for once: a model may be slow, and cost money, so each is kept as it comes."""
    texts = [comment.text for comment in conversation_of(_bytes(conversation)).comments]
    found = topics_of(_bytes(topics))
    given = context.map(
        lambda topic: namer.name(topic, [texts[row] for row in topic.samples]), found, key=lambda topic: topic.key
    )
    names = {topic.key: name for topic, name in zip(found, given, strict=True)}
    return {"names": distinct_names(found, names), "model_name": namer.model_name, "created_at": utc_text(clock.now())}


# ── what the tables get ──────────────────────────────────────────────────────────────────────────


def items_of(
    job_id: str,
    conversation_id: str,
    *,
    conversation: PipelineFile,
    opinions: PipelineFile,
    vectors: PipelineFile,
    map: PipelineFile,
    layers: PipelineFile,
    topics: PipelineFile,
    names: Mapping[str, Any],
    model: str,
) -> dict[str, list[Item]]:
    """The items of the six tables that are written before the configuration, by table."""
    said = conversation_of(_bytes(conversation))
    ids, texts = [comment.id for comment in said.comments], [comment.text for comment in said.comments]
    projection, found = projection_of(_bytes(map)), layers_of(_bytes(layers))
    about, called = topics_of(_bytes(topics)), names["names"]
    rows = vectors_of(_bytes(vectors))
    voted = opinions_of(_bytes(opinions))
    convert = DataConverter
    return {
        EMBEDDINGS: convert.batch_convert_embeddings(conversation_id, ids, rows, model=model, job_id=job_id),
        GRAPH: convert.batch_convert_umap_edges(conversation_id, ids, projection, found, job_id=job_id),
        ASSIGNMENTS: convert.batch_convert_clusters(
            conversation_id, ids, found, about, projection.positions, said=said, opinions=voted, job_id=job_id
        ),
        STRUCTURE: convert.batch_convert_topics(
            conversation_id, about, called, texts, said=said, opinions=voted, job_id=job_id
        ),
        FEATURES: convert.batch_convert_cluster_characteristics(conversation_id, about, texts, job_id=job_id),
        NAMES: convert.batch_convert_llm_topic_names(
            conversation_id,
            about,
            called,
            model_name=names["model_name"],
            created_at=names["created_at"],
            job_id=job_id,
        ),
    }


def _config(
    job_id: str,
    conversation_id: str,
    processed_date: str,
    *,
    conversation: PipelineFile,
    opinions: PipelineFile,
    map: PipelineFile,
    layers: PipelineFile,
    model: str,
    seed: int,
    namer: str,
    report_id: str,
    written: dict[str, int],
    written_at: str,
) -> Item:
    said = conversation_of(_bytes(conversation))
    found, voted = layers_of(_bytes(layers)), opinions_of(_bytes(opinions))
    metadata = {
        "seed": seed,
        "namer": namer,
        "report_id": report_id,
        "skipped": {reason: said.count_skipped(reason) for reason in ("blank", "moderated", "duplicate")},
        "items": written,
        "languages": dict(Counter(comment.language for comment in said.comments)),
        "outliers": found.outliers(),
        "voters": voted.voters,
        "opinion_groups": list(voted.groups),
        "summary": voted.summary,
    }
    return DataConverter.create_conversation_meta(
        conversation_id,
        said,
        found,
        embedding_model=model,
        umap_parameters=projection_of(_bytes(map)).parameters,
        processed_date=processed_date,
        metadata=metadata,
        participants=voted.participants,
        job_id=job_id,
    )


def _bytes(file: PipelineFile) -> bytes:
    return file.read(limit=_MOST_BYTES)


def dumped(value: Any) -> bytes:
    """A dataclass of this package, or a list of them, as JSON."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=dataclasses.asdict)


def conversation_of(data: bytes) -> Conversation:
    form = orjson.loads(data)
    return Conversation(
        tuple(Comment(**one) for one in form["comments"]), tuple(Skipped(**one) for one in form["skipped"])
    )


def _texts(conversation: Conversation) -> tuple[list[str], list[str]]:
    """What was said, and the language of each."""
    comments = conversation.comments
    return [comment.text for comment in comments], [comment.language for comment in comments]


def opinions_of(data: bytes) -> Opinions:
    form = orjson.loads(data)
    comments = tuple(
        CommentVotes(**{**one, "group_agreement": tuple(one["group_agreement"])}) for one in form["comments"]
    )
    people = tuple((x, y, group) for x, y, group in form["people"])
    return Opinions(**{**form, "comments": comments, "people": people, "groups": tuple(form["groups"])})


def projection_of(data: bytes) -> Projection:
    form = orjson.loads(data)
    positions = tuple((x, y) for x, y in form["positions"])
    return Projection(positions, tuple(Edge(**one) for one in form["edges"]), form["parameters"])


def layers_of(data: bytes) -> Layers:
    form = orjson.loads(data)
    labels, confidence = (tuple(map(tuple, form[name])) for name in ("labels", "confidence"))
    return Layers(labels, confidence, form["parameters"], tuple(form["reasons"]))


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
