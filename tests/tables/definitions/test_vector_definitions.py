"""Vector indexes as code: definitions, their problems, plans, applying, files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import penstock
from penstock import DefinitionError, Index, Table, VectorIndex
from penstock.cli.main import cli
from penstock.tables.apply.apply import apply, make
from penstock.tables.definitions.aws_shapes import create_request, from_description
from penstock.tables.definitions.definition import Naming, Throughput
from penstock.tables.definitions.export_file import export_text, read_export
from penstock.tables.formats.python_source import module_text
from penstock.tables.indexes import check_new_indexes
from penstock.tables.plan.changes import AddIndex, CreateTable, DropIndex, describe
from penstock.tables.plan.created import created_lines
from penstock.tables.plan.plan import diff
from penstock.tables.plan.survey import keep_added_indexes, survey

MEANING = VectorIndex(
    "by-meaning", "embedding", dimensions=3, distance="cosine", partition="tenant:S", filters=["kind:S", "year:N"]
)
NOTES = Table("notes", "id:S", vector_indexes=[MEANING])


@pytest.fixture
def db(path: str) -> Iterator[penstock.Database]:
    with penstock.connect(path) as made:
        yield made


def planned(db: penstock.Database, *tables: Table) -> Any:
    return keep_added_indexes(survey(db, tables, Naming()))


def test_a_definition_becomes_the_request_and_the_description_becomes_the_definition(db: penstock.Database) -> None:
    tables = (
        NOTES,
        Table(
            "both",
            ("id:S", "at:N"),
            indexes=[Index("by-kind", "kind:S")],
            vector_indexes=[
                VectorIndex("z-last", "v", dimensions=4096, distance="EUCLIDEAN", projection=["title"]),
                VectorIndex("a-first", "v", dimensions=4096, distance="dot_product", projection="KEYS_ONLY"),
            ],
        ),
    )
    for table in tables:
        make(db, table, table.name)
        live = from_description(db.execute("DescribeTable", {"TableName": table.name}))
        assert live.vector_indexes == table.vector_indexes
        assert live.indexes == table.indexes
        assert diff(live, table) == ()
    shape = create_request(NOTES, "notes")
    assert [one["AttributeName"] for one in shape["AttributeDefinitions"]] == ["id", "kind", "tenant", "year"]


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (VectorIndex("near", "v", dimensions=0), "it has 0 dimensions. Use 1 to 4096"),
        (VectorIndex("near", "v", dimensions=4097), "it has 4097 dimensions"),
        (VectorIndex("near", "v", dimensions=3, distance="manhattan"), "Use one of cosine, dot_product, euclidean"),
        (VectorIndex("x", "v", dimensions=3), "its name has 1 characters"),
        (VectorIndex("near", "", dimensions=3), "the name of its vector has 0 bytes"),
        (VectorIndex("near", "v", dimensions=3, filters=["kind"]), "key attribute 'kind' has no type"),
        (VectorIndex("near", "v", dimensions=3, filters=["a:S", "a:S"]), "'a' is 2 times among"),
        (VectorIndex("near", "id", dimensions=3), "'id' is a vector and a part of a key"),
        (VectorIndex("near", "v", dimensions=3, filters=[f"f{at}:S" for at in range(19)]), "it has 19 filters"),
        (VectorIndex("near", "v", dimensions=3, projection="SOME"), "'SOME' is no projection"),
        (VectorIndex("near", "v", dimensions="3"), "dimensions is '3'"),  # type: ignore[arg-type]
        (Index("near", "v:S"), "vector_indexes is"),
    ],
)
def test_a_wrong_vector_index_is_a_definition_error(index: Any, text: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        Table("notes", "id:S", vector_indexes=[index])
    assert text in str(caught.value)
    assert "test_vector_definitions.py" in str(caught.value)


def test_a_table_with_vector_indexes_is_on_demand_and_has_five_at_the_most() -> None:
    with pytest.raises(DefinitionError, match='need billing="on-demand"'):
        Table("notes", "id:S", vector_indexes=[MEANING], billing=Throughput(1, 1))
    six = [VectorIndex(f"near-{at}", "v", dimensions=3) for at in range(6)]
    with pytest.raises(DefinitionError, match="it has 6 vector indexes"):
        Table("notes", "id:S", vector_indexes=six)
    with pytest.raises(DefinitionError, match="3 dimensions in one vector index and 4 in another"):
        other = VectorIndex("other", "embedding", dimensions=4)
        Table("notes", "id:S", vector_indexes=[MEANING, other])


def test_an_index_is_added_replaced_and_kept(db: penstock.Database) -> None:
    make(db, Table("notes", "id:S"), "notes")
    db.table("notes").put({"id": "a", "tenant": "t", "embedding": [1, 0, 0]})
    plan = planned(db, NOTES)
    (change,) = plan.tables[0].plan.changes
    assert change == AddIndex(MEANING)
    assert describe(change) == "+ vector index by-meaning (embedding, 3 dimensions, cosine)"
    assert not apply(db, plan).failures
    assert planned(db, NOTES).plan.is_empty
    assert [one.item["id"] for one in db.table("notes").search([1, 0, 0], where="tenant = :t", values={":t": "t"})]

    other = Table("notes", "id:S", vector_indexes=[VectorIndex("by-meaning", "embedding", dimensions=3)])
    changes = planned(db, other).tables[0].plan.changes
    assert [type(one) for one in changes] == [DropIndex, AddIndex]
    assert [describe(one)[0] for one in changes] == ["-", "+"]
    assert not apply(db, planned(db, other)).failures
    assert [one.item["id"] for one in db.table("notes").search([1, 0, 0])] == ["a"]

    nothing = planned(db, Table("notes", "id:S"))
    assert nothing.plan.is_empty, "an index that no definition has stays"
    assert "--drop-index notes.by-meaning" in nothing.tables[0].note
    dropped = keep_added_indexes(survey(db, (Table("notes", "id:S"),), Naming()), ["notes.by-meaning"])
    assert not apply(db, dropped).failures
    assert "VectorIndexes" not in db.execute("DescribeTable", {"TableName": "notes"})["Table"]


def test_items_that_do_not_fit_are_told_before_the_index_is_made(db: penstock.Database) -> None:
    make(db, Table("notes", "id:S"), "notes")
    notes = db.table("notes")
    notes.put({"id": "a", "embedding": [1, 0]})
    notes.put({"id": "b", "embedding": "text"})
    notes.put({"id": "c", "embedding": [1, 0, 0], "year": "2026"})
    (check,) = check_new_indexes(db, planned(db, NOTES))
    assert check.fit.holds == 1
    assert [str(one) for one in check.fit.misfits] == [
        "embedding should be a list of 3 numbers, and is a list of 2 in 1, S in 1",
        "year should be N, and is S in 1",
    ] or [str(one) for one in check.fit.misfits][1] == "year should be N, and is S in 1"


def test_definitions_go_through_files(tmp_path: Path) -> None:
    text = export_text(NOTES)
    assert json.loads(text)["Table"]["VectorIndexes"][0]["Dimensions"] == 3
    assert read_export(text, "notes.json").vector_indexes == NOTES.vector_indexes
    source = module_text([NOTES])
    space: dict[str, Any] = {}
    exec(source, space)
    assert space["all"] == [NOTES]
    assert "import Table, VectorIndex" in source


def test_a_new_table_is_shown_in_full() -> None:
    assert diff(None, NOTES) == (CreateTable(NOTES),)
    assert (
        "vector index by-meaning: embedding, 3 dimensions, cosine, partition tenant (S), filters kind (S), year (N), "
        "all attributes"
    ) in created_lines(NOTES)


def test_tables_show_has_vector_indexes(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    with penstock.connect(path) as db:
        make(db, NOTES, "notes")
        db.table("notes").put({"id": "a", "tenant": "t", "embedding": [1, 0, 0]})
    told = CliRunner().invoke(cli, ["tables", "show", "notes", "--db", path, "--table"], env={"COLUMNS": "160"})
    assert told.exit_code == 0, told.output
    assert "by-meaning" in told.output and "cosine" in told.output and "tenant:S" in told.output
    form = json.loads(CliRunner().invoke(cli, ["tables", "show", "notes", "--db", path, "--json"]).output)
    assert form["vector_indexes"][0]["items"] == 1
