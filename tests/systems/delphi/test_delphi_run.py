"""From comments.csv to seven tables (S3.1–S3.8, S3.10, S3.12), on our own conversation."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import delphi_world as world
import pytest

import penstock
from penstock.jobs.app import App
from penstock.pipelines import JobIdRequired, PipelineReport
from penstock.systems.delphi.analysis import projection
from penstock.systems.delphi.analysis.clusters import Layers, cluster_vectors
from penstock.systems.delphi.analysis.conversation import Comment, Conversation, parse_conversation
from penstock.systems.delphi.analysis.embeddings import embedder_named
from penstock.systems.delphi.analysis.languages import detect_languages
from penstock.systems.delphi.analysis.layout import lay_out
from penstock.systems.delphi.analysis.libraries import library, one_thread
from penstock.systems.delphi.analysis.projection import Projection, project_vectors
from penstock.systems.delphi.analysis.topics import KeywordNamer, Topic, describe_topics
from penstock.systems.delphi.converter import DataConverter
from penstock.systems.delphi.pipeline import Delphi
from penstock.systems.delphi.results import (
    ASSIGNMENTS,
    CONFIG,
    EMBEDDINGS,
    FEATURES,
    GRAPH,
    NAMES,
    STRUCTURE,
    RunNotFound,
)
from penstock.systems.delphi.tables import RANGES

pytest.importorskip("wordllama", reason="needs the extra: pip install 'penstock[delphi]'")

JOB = "pipeline_run_of_the_town"
KEPT = [comment.id for comment in parse_conversation(world.SAMPLE.read_bytes()).comments]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    with App(tmp_path_factory.mktemp("delphi") / "delphi.db") as app:
        yield app


@pytest.fixture(scope="module")
def delphi(app: App) -> Delphi:
    return Delphi(app.store)


@pytest.fixture(scope="module")
def report(delphi: Delphi) -> PipelineReport:
    """Run once for all tests of this file."""
    return delphi.run(world.SAMPLE, conversation_id="town", job_id=JOB)


def items(delphi: Delphi, table: str, job_id: str = JOB) -> list[dict[str, Any]]:
    return list(delphi.results.of_job(table, job_id))


def test_S3_1_every_item_of_a_run_has_the_jobs_id_and_its_own_natural_key(delphi: Delphi, report: PipelineReport):
    for table, natural in RANGES.items():
        found = items(delphi, table)
        assert found, table
        for item in found:
            assert item["job_id"] == JOB
            assert item["conversation_id"] == "town"
            assert natural.partition(":")[0] in item
    assert sum(report["written"].values()) == sum(len(items(delphi, table)) for table in RANGES) - 1


def test_S3_2_each_table_has_the_attributes_that_it_should_have(delphi: Delphi, report: PipelineReport):
    common = {"job_id", "conversation_id"}
    cluster = {"layer_id", "cluster_id", "size", "top_words", "top_tfidf_scores", "sample_comments", "cluster_key"}
    graph = {"edge_id", "source_id", "target_id", "weight", "distance", "is_nearest_neighbor", "shared_cluster_layers"}
    wanted = {
        CONFIG: {"processed_date", "num_comments", "num_participants", "embedding_model", "umap_parameters"}
        | {"evoc_parameters", "cluster_layers", "metadata"},
        EMBEDDINGS: {"comment_id", "embedding", "vector"},
        ASSIGNMENTS: {"comment_id", "is_outlier", "distance_to_centroid", "cluster_confidence"}
        | {f"layer{layer}_cluster_id" for layer in range(len(report["config"]["cluster_layers"]))}
        | {"comment_text", "language", "votes"},
        STRUCTURE: cluster | {"topic_label", "centroid_coordinates", "parent_cluster", "child_clusters", "votes"},
        FEATURES: cluster,
        NAMES: {"topic_key", "layer_id", "cluster_id", "topic_name", "model_name", "created_at"},
        GRAPH: graph,
    }
    for table, names in wanted.items():
        for item in items(delphi, table):
            assert set(item) - {"position"} == common | names, table
    [config] = items(delphi, CONFIG)
    assert config["num_comments"] == len(KEPT) == 87
    assert [set(layer) for layer in config["cluster_layers"]] == [{"layer_id", "num_clusters", "description"}] * 2


def test_S3_3_every_table_is_found_by_conversation_too(app: App, report: PipelineReport):
    for table, natural in RANGES.items():
        described = app.store.db.execute("DescribeTable", {"TableName": table})["Table"]
        [index] = described["GlobalSecondaryIndexes"]
        range_name = "job_id" if table == CONFIG else natural.partition(":")[0]
        assert index["IndexName"] == "ConversationIdIndex"
        assert [key["AttributeName"] for key in index["KeySchema"]] == ["conversation_id", range_name]
        assert index["Projection"]["ProjectionType"] == ("KEYS_ONLY" if table == EMBEDDINGS else "ALL")


def test_S3_4_a_run_without_a_job_id_is_refused(delphi: Delphi):
    with pytest.raises(JobIdRequired, match="job_id parameter is required"):
        delphi.run(world.SAMPLE, conversation_id="town", job_id=None)
    for read in (delphi.results.topics, delphi.results.config, lambda none: list(delphi.results.of_job(GRAPH, none))):
        with pytest.raises(ValueError, match="job_id parameter is required"):
            read(None)


def test_S3_5_vectors_are_packed_bytes_with_their_dimension(delphi: Delphi, report: PipelineReport):
    [first, *_] = items(delphi, EMBEDDINGS)
    embedding = first["embedding"]
    assert isinstance(embedding["vector"], bytes)
    assert len(embedding["vector"]) == 4 * embedding["dimensions"]
    vector = delphi.results.vector(JOB, int(first["comment_id"]))
    assert sum(component * component for component in vector) == pytest.approx(1, abs=1e-4)


def test_S3_5_comment_ids_are_the_comments_own(delphi: Delphi, report: PipelineReport):
    for table in (EMBEDDINGS, ASSIGNMENTS):
        assert [int(item["comment_id"]) for item in items(delphi, table)] == KEPT
    assert list(range(len(KEPT))) != KEPT
    nodes = {item["edge_id"] for item in items(delphi, GRAPH) if "position" in item}
    assert nodes == {f"{identity}_{identity}" for identity in KEPT}


def test_S3_5_the_coarser_layer_is_the_parent(delphi: Delphi, report: PipelineReport):
    topics = {topic["cluster_key"]: topic for topic in items(delphi, STRUCTURE)}
    counts = [int(layer["num_clusters"]) for layer in report["config"]["cluster_layers"]]
    assert counts == sorted(counts, reverse=True)
    for key, topic in topics.items():
        parent = topic["parent_cluster"]
        if topic["layer_id"] == len(counts) - 1:
            assert parent is None
            assert topic["child_clusters"]
        else:
            assert parent["layer_id"] == topic["layer_id"] + 1
            children = topics[f"layer{parent['layer_id']}_{parent['cluster_id']}"]["child_clusters"]
            assert {"layer_id": topic["layer_id"], "cluster_id": topic["cluster_id"]} in children, key


def test_S3_5_layers_past_four_are_kept():
    layers = Layers(((0, 1, 2, 3, 4, 5),) * 6, ((1.0,) * 6,) * 6)
    [first, *_] = DataConverter.batch_convert_clusters(
        "c", range(6), layers, _no_topics(6, 6), [(0.0, 0.0)] * 6, job_id="j"
    )
    assert [first[f"layer{layer}_cluster_id"] for layer in range(6)] == [0] * 6


def test_S3_5_who_reads_by_conversation_never_sees_half_a_run(delphi: Delphi, report: PipelineReport):
    results = delphi.results
    assert results.latest_job_id("town") == JOB
    assert [run["job_id"] for run in results.runs("town")] == [JOB]
    results.write("half", NAMES, [{"job_id": "half", "topic_key": "layer0_0", "conversation_id": "town"}])
    assert results.latest_job_id("town") == JOB
    assert {item["job_id"] for item in results.latest(NAMES, "town")} == {JOB}
    results.write("half", NAMES, [])
    assert items(delphi, NAMES, "half") == []


def test_S3_5_the_pointer_never_goes_back_and_a_withdrawn_run_leaves_the_one_before(app: App):
    results = Delphi(app.store).results
    results.create_tables()
    old, new = (
        {"job_id": job, "conversation_id": "pointers", "processed_date": date}
        for job, date in (("old", "2026-01-01T00:00:00.000Z"), ("new", "2026-01-02T00:00:00.000Z"))
    )
    assert results.publish(new)
    assert not results.publish(old)
    assert results.latest_job_id("pointers") == "new"
    results.withdraw("new")
    assert results.latest_job_id("pointers") == "old"
    results.withdraw("old")
    with pytest.raises(RunNotFound, match="no complete run of the conversation 'pointers'"):
        results.latest_job_id("pointers")
    assert results.runs("pointers") == []


def test_S3_5_a_job_that_is_run_again_for_another_conversation_leaves_nothing_of_the_first(tmp_path: Path):
    with App(tmp_path / "moved.db") as app:
        delphi = Delphi(app.store)
        few = tmp_path / "comments.csv"
        few.write_text("comment-id,comment-body\n5,one thing\n9,another thing\n")
        delphi.run(few, conversation_id="first", job_id="j")
        few.write_text("comment-id,comment-body\n9,another thing\n")
        delphi.run(few, conversation_id="second", job_id="j")
        results = delphi.results
        assert results.latest_job_id("second") == "j"
        assert results.runs("first") == []
        with pytest.raises(RunNotFound):
            results.latest_job_id("first")
        for table in RANGES:
            assert {item["conversation_id"] for item in items(delphi, table, "j")} == {"second"}
        assert [int(item["comment_id"]) for item in items(delphi, EMBEDDINGS, "j")] == [9]


def test_S3_6_the_job_id_is_the_environments_or_a_new_one(delphi: Delphi, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DELPHI_JOB_ID", raising=False)
    assert delphi.new_job_id().startswith("pipeline_run_")
    assert len(delphi.new_job_id()) == len("pipeline_run_") + 36
    assert delphi.new_job_id() != delphi.new_job_id()
    monkeypatch.setenv("DELPHI_JOB_ID", "job_from_outside")
    assert delphi.new_job_id() == "job_from_outside"


def test_S3_8_the_three_reads(delphi: Delphi, report: PipelineReport):
    results = delphi.results
    assert len(list(results.of_job(ASSIGNMENTS, JOB))) == 87
    item = results.one(ASSIGNMENTS, JOB, KEPT[0])
    assert item is not None
    assert item["comment_id"] == KEPT[0]
    assert results.one(ASSIGNMENTS, JOB, 10**9) is None
    by_conversation = [one for one in results.of_conversation(ASSIGNMENTS, "town") if one["job_id"] == JOB]
    assert by_conversation == list(results.of_job(ASSIGNMENTS, JOB))
    keys = next(iter(results.of_conversation(EMBEDDINGS, "town")))
    assert set(keys) == {"job_id", "comment_id", "conversation_id"}


def test_S3_8_the_seeds_own_queries_run_through_boto3(app: App, report: PipelineReport):
    from boto3.dynamodb.conditions import Key

    table = penstock.boto3_resource(app.store.db.name).Table("Delphi_CommentClustersLLMTopicNames")
    response = table.query(KeyConditionExpression=Key("job_id").eq(JOB))
    assert response["Count"] == report["written"][NAMES]
    response = table.get_item(Key={"job_id": JOB, "topic_key": "layer0_0"})
    assert response["Item"]["topic_name"]
    response = table.query(IndexName="ConversationIdIndex", KeyConditionExpression=Key("conversation_id").eq("town"))
    assert {item["job_id"] for item in response["Items"]} >= {JOB}


CONVERTERS: dict[str, Any] = {
    "create_conversation_meta": lambda job_id: DataConverter.create_conversation_meta(
        "c", _CONVERSATION, _LAYERS, embedding_model="m", umap_parameters={}, processed_date="t", job_id=job_id
    ),
    "batch_convert_embeddings": lambda job_id: DataConverter.batch_convert_embeddings(
        "c", [7], [[1.0]], model="m", job_id=job_id
    ),
    "batch_convert_umap_edges": lambda job_id: DataConverter.batch_convert_umap_edges(
        "c", [7], Projection(((0.0, 0.0),), (), {}), _LAYERS, job_id=job_id
    ),
    "batch_convert_clusters": lambda job_id: DataConverter.batch_convert_clusters(
        "c", [7], _LAYERS, _no_topics(1, 1), [(0.0, 0.0)], job_id=job_id
    ),
    "batch_convert_topics": lambda job_id: DataConverter.batch_convert_topics(
        "c", _no_topics(1, 1), {"layer0_0": "name"}, ["text"], job_id=job_id
    ),
    "batch_convert_cluster_characteristics": lambda job_id: DataConverter.batch_convert_cluster_characteristics(
        "c", _no_topics(1, 1), ["text"], job_id=job_id
    ),
    "batch_convert_llm_topic_names": lambda job_id: DataConverter.batch_convert_llm_topic_names(
        "c", _no_topics(1, 1), {"layer0_0": "name"}, model_name="m", created_at="t", job_id=job_id
    ),
}
_CONVERSATION = Conversation((Comment(7, "text"),))
_LAYERS = Layers(((0,),), ((1.0,),))


def _no_topics(layers: int, clusters: int) -> list[Any]:
    return [Topic(layer, cluster, (0,), (), (0,), (0.0, 0.0)) for layer in range(layers) for cluster in range(clusters)]


@pytest.mark.parametrize("name", CONVERTERS)
def test_S3_10_the_converters_have_the_seeds_names_and_require_a_job_id(name: str):
    assert callable(getattr(DataConverter, name))
    made = CONVERTERS[name]("a_job")
    assert all(item["job_id"] == "a_job" for item in (made if isinstance(made, list) else [made]))
    for missing in (None, ""):
        with pytest.raises(ValueError, match="job_id parameter is required"):
            CONVERTERS[name](missing)


def test_S3_12_topics_of_our_conversation_are_those_it_was_written_about(report: PipelineReport, delphi: Delphi):
    finest = [topic for topic in delphi.results.topics(JOB) if topic["layer_id"] == 0]
    told = " ".join(topic["topic_label"].lower() for topic in finest)
    for theme in ("cycle", "bus", "river", "library", "lunch", "flats", "market"):
        assert theme in told
    outliers = [item for item in items(delphi, ASSIGNMENTS) if item["is_outlier"]]
    assert len(outliers) <= 0.05 * len(KEPT)


def test_S3_12_the_picture_of_the_map_is_a_file_of_the_job(report: PipelineReport, delphi: Delphi):
    drawing = report["svg"].read().decode()
    root = ElementTree.fromstring(drawing)
    circles = root.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 87
    for topic in delphi.results.topics(JOB):
        assert topic["layer_id"] != 0 or topic["topic_label"] in drawing
    assert report["png"].read().startswith(b"\x89PNG\r\n\x1a\n")
    assert report["svg"].key == f"{JOB}/draw/map.svg"


def test_S3_12_a_finished_run_is_not_done_again_and_a_changed_seed_only_does_what_depends_on_it(
    delphi: Delphi, report: PipelineReport
):
    again = delphi.run(world.SAMPLE, conversation_id="town", job_id=JOB)
    assert again.ran == ()
    before = world.everything(delphi.results, JOB)
    other = delphi.run(world.SAMPLE, conversation_id="town", job_id=JOB, seed=7)
    assert other.reused[0] == "read"
    assert "write" in other.ran
    assert len(items(delphi, EMBEDDINGS)) == 87
    delphi.run(world.SAMPLE, conversation_id="town", job_id=JOB)
    assert world.everything(delphi.results, JOB) == before
    assert delphi.results.latest_job_id("town") == JOB


@pytest.mark.crash
def test_S3_12_a_killed_run_goes_on_and_the_same_seed_gives_the_same_items_in_another_process(
    tmp_path: Path, delphi: Delphi, report: PipelineReport
):
    database = str(tmp_path / "other.db")
    command = [sys.executable, world.__file__, database, JOB]
    killed = subprocess.run([*command, "killed"], timeout=240, check=False)
    assert killed.returncode == -9
    resumed = subprocess.run([*command, "whole"], timeout=240, check=True, capture_output=True, text=True)
    ran, reused = resumed.stdout.split()
    assert reused.split(",") == ["read", "vote", "embed", "project", "cluster", "describe"]
    assert ran.split(",") == ["name", "draw", "write", "publish"]
    with App(database) as other:
        assert world.everything(Delphi(other.store).results, JOB) == world.everything(delphi.results, JOB)


def test_S3_9_after_the_tables_were_made_again_the_same_job_writes_them_again(tmp_path: Path):
    with App(tmp_path / "again.db") as app:
        delphi = Delphi(app.store)
        few = tmp_path / "comments.csv"
        few.write_text("comment-id,comment-body\n5,one thing\n9,another thing\n")
        delphi.run(few, conversation_id="few", job_id="j")
        for table in RANGES:
            app.store.db.execute("DeleteTable", {"TableName": table})
        report = delphi.run(few, conversation_id="few", job_id="j")
        assert report.ran == ("write", "publish")
        assert [int(item["comment_id"]) for item in items(delphi, EMBEDDINGS, "j")] == [5, 9]


@pytest.mark.parametrize("texts", [["only one"], ["one", "two"], ["a b"] * 1 + [f"word{n} common" for n in range(9)]])
def test_S3_12_a_conversation_of_very_few_comments_has_a_topic(tmp_path: Path, texts: list[str]):
    file = tmp_path / "comments.csv"
    file.write_text("comment-id,comment-body\n" + "".join(f"{10 * n},{text}\n" for n, text in enumerate(texts)))
    with App(tmp_path / "few.db") as app:
        delphi = Delphi(app.store)
        report = delphi.run(file, conversation_id="few", job_id="j")
        assert sum(int(topic["size"]) for topic in delphi.results.topics("j") if topic["layer_id"] == 0) == len(texts)
        assert report["written"][GRAPH] >= len(texts)


DEGENERATE = {
    "all alike but for digits": [f"test {number}" for number in range(30)],
    "nothing but numbers": [str(number) for number in range(30)],
    "only stop words": [f"should we {word}" for word in ("be", "do", "have", "go", "make", "take", "see")],
    "single letters": [chr(97 + number) for number in range(26)],
    "Thai, which has no blanks": ["แม่น้ำท่วมทุกปี", "รถเมล์แพงเกินไป", "ห้องสมุดปิดเร็ว", "แม่น้ำสกปรก", "รถเมล์ช้า", "ค่าเช่าแพง"],
    "Hindi, whose vowels are marks": [f"नदी में बाढ़ {letter}" for letter in "कखगघचछजझ"],
    "emoji": ["🚲" * (number + 1) + chr(0x1F600 + number) for number in range(20)],
}


@pytest.mark.parametrize("embedder", ["wordllama", "tfidf"])
@pytest.mark.parametrize("texts", DEGENERATE.values(), ids=DEGENERATE)
def test_S3_12_odd_conversations_have_a_map_and_names_too(texts: list[str], embedder: str):
    with one_thread():
        codes = detect_languages(texts)
        vectors = embedder_named(embedder).fit(texts, codes, 1).vectors
        projection = project_vectors(vectors, 1)
        layers = cluster_vectors(vectors, 1)
        topics = describe_topics(layers, texts, vectors, projection.positions, codes)
    assert all(math.isfinite(number) for position in projection.positions for number in position)
    names = {topic.key: KeywordNamer().name(topic, [texts[row] for row in topic.samples]) for topic in topics}
    assert all(names.values())
    ids = range(len(texts))
    assert len(DataConverter.batch_convert_embeddings("c", ids, vectors, model="m", job_id="j")) == len(texts)
    assert len(DataConverter.batch_convert_clusters("c", ids, layers, topics, projection.positions, job_id="j")) == len(
        texts
    )


def test_S3_12_groups_of_the_graph_lie_apart_on_the_map_and_compile_nothing() -> None:
    numpy, sparse = pytest.importorskip("numpy"), pytest.importorskip("scipy.sparse")
    random = numpy.random.RandomState(5)
    groups = numpy.repeat([0, 1, 2], 20)
    together = groups[:, None] == groups[None, :]
    weights = random.uniform(0.3, 1.0, size=(60, 60)) * numpy.where(together, 1.0, 0.001)
    graph = sparse.csr_matrix(numpy.triu(weights, 1) + numpy.triu(weights, 1).T)
    start = random.normal(size=(60, 2))
    places = lay_out(graph, start, numpy.random.RandomState(1))
    apart = numpy.linalg.norm(places[:, None] - places[None, :], axis=2)
    numpy.fill_diagonal(apart, numpy.inf)
    nearest = numpy.argsort(apart, axis=1)[:, :10]
    assert (groups[nearest] == groups[:, None]).all()
    assert numpy.array_equal(places, lay_out(graph, start, numpy.random.RandomState(1)))


def test_S3_12_directions_that_lanczos_does_not_part_are_found_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 comments made of a few sentences: the largest eigenvalues were too much alike, and the run failed."""
    sparse, numpy = pytest.importorskip("scipy.sparse"), pytest.importorskip("numpy")
    monkeypatch.setattr(projection, "_MOST_ROUNDS", 1)  # the conversation that failed took 20,000
    chain = sparse.diags([0.5, 0.5], [-1, 1], shape=(700, 700)).tocsr()
    with pytest.raises(library("scipy.sparse.linalg").ArpackNoConvergence):
        library("scipy.sparse.linalg").eigsh(chain, k=20, which="LA", v0=numpy.ones(700), maxiter=1)
    values, rows = projection.leading_directions(chain, 20, seed=42)
    exact = numpy.linalg.eigvalsh(chain.toarray())[-20:]
    assert numpy.allclose(sorted(values), exact, atol=2e-3)
    assert numpy.allclose(rows.T @ rows, numpy.eye(20), atol=1e-2)
