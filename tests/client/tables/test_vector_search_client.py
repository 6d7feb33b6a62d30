"""`table.search`: vectors from Python, with the embedded engine and over HTTP, with and without asyncio, and boto3."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
from botocore.config import Config

import penstock
from penstock import F, Table, VectorIndex
from penstock.client.tables.requests import Match
from penstock.client.tables.table import Table as Handle
from penstock.client.transports.endpoints import Endpoint, parse
from penstock.client.transports.messages import Messages
from penstock.engine import Engine
from penstock.server.server import running_server
from penstock.tables.apply.apply import make

PAPERS = Table(
    "papers",
    "id:S",
    vector_indexes=[VectorIndex("by-meaning", "embedding", dimensions=3, filters=["kind:S", "year:N"])],
)
ITEMS = [
    {"id": "a", "kind": "note", "year": 2025, "embedding": [1.0, 0.0, 0.0]},
    {"id": "b", "kind": "note", "year": 2026, "embedding": [0.0, 1.0, 0.0]},
    {"id": "c", "kind": "essay", "year": 2026, "embedding": [0.6, 0.8, 0.0]},
    {"id": "d", "kind": "essay", "year": 2026},
]


def filled(db: penstock.Database) -> None:
    make(db, PAPERS, "papers")
    db.table("papers").batch_write(ITEMS)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("vectors") / "served.db"
    with penstock.connect(path) as db:
        filled(db)
    with Engine(str(path)) as engine, running_server(engine) as server:
        yield server.url


@pytest.fixture(params=["embedded", "http"])
def papers(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> Iterator[Handle]:
    with penstock.connect(url if request.param == "http" else tmp_path / "own.db") as made:
        if request.param == "embedded":
            filled(made)
        yield made.table("papers")


def test_a_search_gives_items_and_scores_the_nearest_first(papers: Handle) -> None:
    matches = papers.search([1, 0, 0])
    assert [one.item["id"] for one in matches] == ["a", "c", "b"]
    assert matches[0] == Match({"id": "a", "kind": "note", "year": 2025}, 0.0)
    assert [one.score for one in matches] == pytest.approx([0.0, 0.4, 1.0])


def test_a_search_chooses_and_selects(papers: Handle) -> None:
    (only,) = papers.search((0.5, 0.5, 0), top=1, where=F("kind") == "essay", select=["id", "embedding"])
    assert only.item["id"] == "c" and [float(one) for one in only.item["embedding"]] == pytest.approx([0.6, 0.8, 0])
    both = papers.search([1, 0, 0], where=(F("kind") == "note") & (F("year") == 2026), index="by-meaning")
    assert [one.item["id"] for one in both] == ["b"]
    text = papers.search([1, 0, 0], where="#k = :k", names={"#k": "kind"}, values={":k": "note"})
    assert [one.item["id"] for one in text] == ["a", "b"]


def test_numpys_vectors_are_vectors_too(papers: Handle) -> None:
    query = np.array([1, 0, 0], dtype=np.float32)
    assert [one.item["id"] for one in papers.search(query, top=2)] == ["a", "c"]


@pytest.mark.parametrize("wrong", [[float("nan"), 0, 0], [float("inf"), 0, 0]])
def test_what_is_no_number_is_refused_before_it_is_sent(papers: Handle, wrong: list[float]) -> None:
    with pytest.raises(ValueError, match=r"nan|inf|NaN|Infinity"):
        papers.search(wrong)


def test_a_table_without_one_vector_index_asks_for_a_name(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "x.db") as db:
        make(db, Table("plain", "id:S"), "plain")
        with pytest.raises(ValueError, match="table 'plain' has no vector index"):
            db.table("plain").search([1])
        two = [VectorIndex(name, "v", dimensions=1) for name in ("one", "two")]
        make(db, Table("both", "id:S", vector_indexes=two), "both")
        with pytest.raises(ValueError, match=r"2 vector indexes \(one, two\).*index='one'"):
            db.table("both").search([1])
        assert db.table("both").search([1], index="two") == []


def test_asyncio_searches_too(url: str) -> None:
    async def search() -> list[Match]:
        async with penstock.connect_async(url) as db:
            return await db.table("papers").search([1, 0, 0], top=2, where=F("kind") == "note")

    assert [one.item["id"] for one in asyncio.run(search())] == ["a", "b"]


REQUEST: dict[str, Any] = {
    "TableName": "papers",
    "IndexName": "by-meaning",
    "SearchVector": [{"N": "1"}, {"N": "0"}, {"N": "0"}],
    "TopK": 2,
}


def test_botocores_own_client_searches_over_http_and_embedded(url: str, tmp_path: Path) -> None:
    """`endpoint_url` keeps SDKs from their search-dynamodb hosts."""
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "region_name": "eu-west-2"}
    config = Config(retries={"total_max_attempts": 1})
    over_http = boto3.client("dynamodb", endpoint_url=url, config=config, **keys)
    with penstock.connect(tmp_path / "own.db") as db:
        filled(db)
        for client in (over_http, penstock.boto3_client(db)):
            results = client.search_vectors(**REQUEST)["SearchResults"]
            assert [one["Item"]["id"]["S"] for one in results] == ["a", "c"]
            assert results[1]["Score"] == pytest.approx(0.4)
            described = client.describe_table(TableName="papers")["Table"]["VectorIndexes"]
            assert described[0]["DistanceFunction"] == "COSINE"


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ("aws://eu-west-2", "search-dynamodb.eu-west-2.amazonaws.com"),
        ("https://123456789012.ddb.eu-west-2.amazonaws.com", "123456789012.search-ddb.eu-west-2.amazonaws.com"),
        ("http://localhost:8000", "localhost"),
    ],
)
def test_aws_answers_searches_at_a_host_of_their_own(given: str, host: str) -> None:
    endpoint = parse(given, {})
    assert isinstance(endpoint, Endpoint)
    assert endpoint.search.host == host
    messages = Messages(endpoint)
    assert messages.lane("SearchVectors").route.host.host == host
    assert messages.lane("GetItem").route.host == endpoint.host
