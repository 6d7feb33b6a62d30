"""Statements beside each other: in threads, and in the group of calls that shares a commit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest
from partiql_tables import table

import penstock
from penstock.engine.engine import Pending
from penstock.errors import DuplicateItemException


@pytest.mark.parametrize("path", [":memory:", "statements.db"])
def test_threads_count_together(tmp_path, path):
    with penstock.connect(path if path == ":memory:" else tmp_path / path) as db:
        db.execute("CreateTable", table("one"))
        db.execute("ExecuteStatement", {"Statement": "INSERT INTO one VALUE {'pk': 'n', 'n': 0}"})

        def count(_):
            for _ in range(20):
                db.execute("ExecuteStatement", {"Statement": "UPDATE one SET n = n + 1 WHERE pk = 'n'"})

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(count, range(6)))
        (item,) = db.execute("ExecuteStatement", {"Statement": "SELECT n FROM one WHERE pk = 'n'"})["Items"]
        assert item == {"n": {"N": "120"}}


def test_statements_share_a_commit_with_other_calls():
    with penstock.connect() as db:
        db.execute("CreateTable", table("one"))
        insert = {"Statement": "INSERT INTO one VALUE {'pk': 'a'}"}
        delete = {"Statement": "DELETE FROM one WHERE pk = 'b'"}
        select = {"Statement": "SELECT * FROM one WHERE pk = 'a'"}
        answers = db.engine.answer_many(
            [
                Pending("PutItem", {"TableName": "one", "Item": {"pk": {"S": "b"}}}),
                Pending("ExecuteStatement", insert),
                Pending("ExecuteStatement", insert),
                Pending("BatchExecuteStatement", {"Statements": [insert, delete]}),
                Pending("ExecuteTransaction", {"TransactStatements": [select]}),
                Pending("ExecuteStatement", {"Statement": "SELECT * FROM one"}),
            ]
        )
        assert [type(answer) for answer in answers] == [bytes, bytes, DuplicateItemException, bytes, bytes, bytes]
        assert orjson.loads(answers[3])["Responses"][0]["Error"]["Code"] == "DuplicateItem"
        assert orjson.loads(answers[4]) == {"Responses": [{"Item": {"pk": {"S": "a"}}}]}
        assert orjson.loads(answers[5]) == {"Items": [{"pk": {"S": "a"}}]}
