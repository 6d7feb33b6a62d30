"""The list of all tables, which background work asks for again and again."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.engine import Engine
from penstock.engine.catalog import catalog
from penstock.engine.catalog.table_schema import compile_table


def make(engine: Engine, name: str) -> None:
    request = {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    }
    engine.execute("CreateTable", request)


@pytest.mark.parametrize("path", [":memory:", "x.db"])
def test_tables_are_compiled_again_only_when_the_catalog_has_changed(
    path: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []

    def noted(*given: Any) -> Any:
        table = compile_table(*given)
        compiled.append(table.name)
        return table

    def names(engine: Engine) -> list[str]:
        with engine.reading() as context:
            return [table.name for table in engine.catalog.all(context.db)]

    where = path if path == ":memory:" else str(tmp_path / path)
    with Engine(where) as engine, Engine(where) as other:
        writer = engine if path == ":memory:" else other
        make(writer, "one")
        assert names(engine) == ["one"]
        with monkeypatch.context() as patched:
            patched.setattr(catalog, "compile_table", noted)
            assert [names(engine) for _ in range(5)] == [["one"]] * 5
            assert compiled == []
        make(writer, "two")
        assert names(engine) == ["one", "two"]
        writer.execute("DeleteTable", {"TableName": "one"})
        with engine.reading() as context:
            assert ["deleted_at" in table.record for table in engine.catalog.all(context.db)][-1] is False


def test_a_table_that_was_never_committed_is_not_kept() -> None:
    with Engine() as engine:
        make(engine, "one")
        with pytest.raises(ZeroDivisionError), engine.writing() as context:
            table = engine.catalog.find(context.db, context.scope, "one")
            assert table is not None
            engine.catalog.save(context.db, table, {**table.record, "TableName": "one", "marked": True})
            assert ["marked" in one.record for one in engine.catalog.all(context.db)] == [True]
            raise ZeroDivisionError
        with engine.reading() as context:
            assert ["marked" in one.record for one in engine.catalog.all(context.db)] == [False]
