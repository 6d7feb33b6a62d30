"""Delphi on real conversations of Pol.is (S3.12), which are not part of this repository.

PENSTOCK_POLIS_DATA says where they are. Data was gathered using the Polis software (compdemocracy.org/polis) and is
sub-licensed under CC BY 4.0 with attribution to The Computational Democracy Project.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.systems.delphi.analysis.clusters import OUTLIER, Clusterer, Layers, cluster_vectors, evoc_is_compiled
from penstock.systems.delphi.analysis.conversation import Conversation, Skipped, read_conversation
from penstock.systems.delphi.analysis.embeddings import embedder_named
from penstock.systems.delphi.analysis.languages import detect_languages
from penstock.systems.delphi.analysis.libraries import one_thread
from penstock.systems.delphi.analysis.topics import KeywordNamer, Topic, describe_topics

HERE = Path(__file__).resolve().parents[3]
DATA = Path(os.environ.get("PENSTOCK_POLIS_DATA", HERE.parent / "shared" / "data" / "polis"))

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="no conversations of Pol.is here: PENSTOCK_POLIS_DATA names their folder"
)
pytest.importorskip("wordllama", reason="needs the extra: pip install 'penstock[delphi]'")
compiled = pytest.mark.skipif(
    not (evoc_is_compiled() or os.environ.get("PENSTOCK_TEST_EVOC")),
    reason="EVoC is not compiled here, which takes minutes: PENSTOCK_TEST_EVOC=1 does it",
)


def analysed(name: str, clusterer: Clusterer = "auto") -> tuple[Conversation, Layers, list[Topic], dict[str, str]]:
    conversation = read_conversation(DATA / name)
    texts = [comment.text for comment in conversation.comments]
    with one_thread():
        codes = detect_languages(texts)
        vectors = embedder_named("auto").fit(texts, codes, 42).vectors
        layers = cluster_vectors(vectors, 42, clusterer)
        topics = describe_topics(layers, texts, vectors, [(0.0, 0.0)] * len(texts), codes)
    namer = KeywordNamer()
    return (
        conversation,
        layers,
        topics,
        {topic.key: namer.name(topic, [texts[row] for row in topic.samples]) for topic in topics},
    )


def test_S3_5_the_blank_comment_of_football_concussions_shifts_no_id():
    conversation = read_conversation(DATA / "football-concussions")
    texts = {comment.id: comment.text for comment in conversation.comments}
    assert Skipped(151, "blank") in conversation.skipped
    assert 151 not in texts
    assert texts[296].startswith("Football and other kinds of aggressive sports")


@pytest.mark.parametrize(
    ("name", "kept", "left_out"),
    [
        ("bg2050-volunteers", 316, 55),
        ("brexit-consensus", 50, 0),
        ("football-concussions", 159, 139),
        ("london.youth.policing", 36, 3),
        ("march-on.operation-marchin-orders", 1766, 396),
        ("scoop-hivemind.biodiversity", 154, 162),
        ("vtaiwan.uberx", 119, 78),
    ],
)
def test_S3_12_real_exports_of_either_column_set_are_read(name: str, kept: int, left_out: int):
    conversation = read_conversation(DATA / name)
    assert (len(conversation.comments), len(conversation.skipped)) == (kept, left_out)


@pytest.mark.parametrize(
    ("name", "clusterer", "themes"),
    [
        ("london.youth.policing", "auto", ("police",)),
        ("brexit-consensus", "auto", ("referendum", "labour", "eu")),
        ("vtaiwan.uberx", "auto", ("計程車", "職業駕照", "uber")),
        ("scoop-hivemind.biodiversity", "tree", ("species", "city", "strategy", "private land")),
    ],
)
def test_S3_12_short_conversations_have_layers_and_few_outliers(
    name: str, clusterer: Clusterer, themes: tuple[str, ...]
):
    _, layers, _, names = analysed(name, clusterer)
    assert layers.parameters["method"] == "tree"
    counts = [layers.count(layer) for layer in range(len(layers.labels))]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] >= 2
    assert layers.labels[0].count(OUTLIER) <= 0.05 * len(layers.labels[0])
    told = " ".join(names.values()).casefold()
    assert [theme for theme in themes if theme not in told] == []


@pytest.mark.parametrize(
    ("name", "themes"),
    [
        ("scoop-hivemind.biodiversity", ("species", "city", "strategy", "private land", "pest control")),
        ("bg2050-volunteers", ("parking", "housing", "museum", "public transit")),
        ("march-on.operation-marchin-orders", ("climate change", "health care", "trump", "equal pay", "public")),
    ],
)
def test_S3_12_longer_conversations_have_two_to_four_layers_and_few_outliers(name: str, themes: tuple[str, ...]):
    conversation, layers, topics, names = analysed(name)
    assert layers.parameters["method"] == "tree"
    assert 2 <= len(layers.labels) <= 4
    assert layers.count(len(layers.labels) - 1) <= 10
    for labels in layers.labels:
        assert labels.count(OUTLIER) <= 0.05 * len(conversation.comments)
    told = " ".join(names.values()).casefold()
    assert [theme for theme in themes if theme not in told] == []
    for topic in topics:
        assert (topic.parent is None) == (topic.layer == len(layers.labels) - 1)


@compiled
def test_S3_12_evoc_is_used_where_it_is_asked_for_with_as_few_outliers():
    conversation, layers, _, _ = analysed("scoop-hivemind.biodiversity", "evoc")
    assert layers.parameters["method"] == "evoc"
    assert layers.labels[0].count(OUTLIER) <= 0.05 * len(conversation.comments)
    assert layers.count(0) > layers.count(len(layers.labels) - 1) >= 2
