"""ListTables."""

from __future__ import annotations

from penstock.engine import Engine, Scope


def create(engine: Engine, name: str, scope: Scope | None = None) -> None:
    request = {
        "TableName": name,
        "AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
    }
    engine.execute("CreateTable", request, scope or Scope())


def test_there_are_no_tables_at_first(engine: Engine) -> None:
    assert engine.execute("ListTables", {}) == {"TableNames": []}


def test_names_come_in_order_a_page_at_a_time(engine: Engine) -> None:
    for name in ("zebra", "ant", "cow", "bee"):
        create(engine, name)
    first = engine.execute("ListTables", {"Limit": 3})
    assert first == {"TableNames": ["ant", "bee", "cow"], "LastEvaluatedTableName": "cow"}
    rest = engine.execute("ListTables", {"Limit": 3, "ExclusiveStartTableName": "cow"})
    assert rest == {"TableNames": ["zebra"]}


def test_a_page_that_ends_with_the_last_name_is_the_last_page(engine: Engine) -> None:
    for name in ("ant", "bee"):
        create(engine, name)
    assert engine.execute("ListTables", {"Limit": 2}) == {"TableNames": ["ant", "bee"]}


def test_a_page_may_start_after_a_name_that_does_not_exist(engine: Engine) -> None:
    for name in ("ant", "cow"):
        create(engine, name)
    assert engine.execute("ListTables", {"ExclusiveStartTableName": "bee"}) == {"TableNames": ["cow"]}


def test_without_a_limit_a_page_has_a_hundred_names(engine: Engine) -> None:
    for number in range(101):
        create(engine, f"table{number:03d}")
    page = engine.execute("ListTables", {})
    assert (len(page["TableNames"]), page["LastEvaluatedTableName"]) == (100, "table099")


def test_an_account_and_region_see_only_their_own(engine: Engine) -> None:
    create(engine, "ant")
    create(engine, "bee", Scope(region="eu-west-2"))
    create(engine, "cow", Scope(account="111111111111"))
    assert engine.execute("ListTables", {})["TableNames"] == ["ant"]
    assert engine.execute("ListTables", {}, Scope(region="eu-west-2"))["TableNames"] == ["bee"]
