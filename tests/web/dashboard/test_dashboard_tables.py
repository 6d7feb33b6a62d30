"""The pages about tables and their items, without a browser."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from decimal import Decimal
from urllib.parse import urlencode

import orjson
import pytest
from click.testing import CliRunner
from dashboard_tables_world import EVIL, ORDERS, TableWorld, csrf_of, fields_of, rows_of

from penstock.cli import up
from penstock.engine.settings import Settings, Throttling
from penstock.errors import DynamoDBError
from penstock.tables.definitions.definition import Index, Table
from penstock.tables.definitions.sources import Definitions, LoadingError
from penstock.web.dashboard.items.export import Export, escape_formula
from penstock.web.dashboard.items.search import Search
from penstock.web.dashboard.pages.tables import view_of
from penstock.web.dashboard.security import POLICY
from penstock.wire.values import equal


@pytest.fixture
def world() -> Iterator[TableWorld]:
    found = TableWorld()
    yield found
    found.close()


def filled(world: TableWorld, count: int = 120) -> None:
    with world.db.table("orders").batch() as batch:
        for number in range(count):
            city = "Leeds" if number % 2 else "York"
            batch.put({"customer": f"c{number % 3}", "number": number, "city": city, "total": number * 10})


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def test_the_list_shows_states_sizes_indexes_ttl_and_streams(world: TableWorld) -> None:
    filled(world, 7)
    page = world.page("/tables")
    row = re.search(r'<tr data-key="orders">(.*?)</tr>', page, re.DOTALL)
    assert row is not None
    for told in ("active", ">7</a>", "by-city", "expires", "NEW_IMAGE"):
        assert told in row.group(1)


def test_a_list_of_many_tables_has_pages_that_neither_repeat_nor_leave_out(world: TableWorld) -> None:
    for number in range(60):
        world.db.execute(
            "CreateTable",
            {
                "TableName": f"t{number:03d}",
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                "BillingMode": "PAY_PER_REQUEST",
            },
        )
    seen: list[str] = []
    path: str | None = "/tables"
    while path is not None:
        page = world.page(path)
        seen += re.findall(r'<tr data-key="([^"]+)"', page)
        found = re.search(r'href="(/tables\?[^"]+)" rel="next"', page)
        path = found.group(1) if found else None
    assert seen == world.db.tables()


def test_a_database_without_tables_says_how_to_make_some(world: TableWorld) -> None:
    for name in ("orders", "things"):
        world.db.execute("DeleteTable", {"TableName": name})
    assert "penstock tables apply" in world.page("/tables")


def test_a_table_shows_its_definition_and_its_indexes(world: TableWorld) -> None:
    filled(world, 3)
    page = world.page("/tables/orders")
    for told in (
        "customer",
        "number",
        "by-city",
        "keys only",
        "deletion protection",
        'data-live="/live/table?key=orders"',
    ):
        assert told in page


def test_an_index_that_is_being_made_shows_how_far_it_is() -> None:
    description = {
        "TableName": "t",
        "TableStatus": "UPDATING",
        "ItemCount": 200,
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("id", "city")],
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": "by-city",
                "IndexStatus": "CREATING",
                "ItemCount": 50,
                "KeySchema": [{"AttributeName": "city", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
    }
    (index,) = view_of(description).indexes
    assert index.percent == 25
    world = TableWorld()
    page = world.source.db and world.client.app.state.site.fragment("table_live.html", view=view_of(description))  # type: ignore[attr-defined]
    assert "25 %" in page and "creating" in page
    world.close()


def test_an_open_page_is_told_how_the_table_is_and_when_it_is_gone(world: TableWorld) -> None:
    feed = world.client.app.state.poller.feeds["table"]  # type: ignore[attr-defined]
    filled(world, 3)
    told = feed.poll(["orders", EVIL, "things"])
    assert "by-city" in told["orders"][0].data
    assert "not there any more" in told[EVIL][0].data
    world.db.execute("DeleteTable", {"TableName": "orders"})
    assert "not there any more" in feed.poll(["orders"])["orders"][0].data
    many = [f"t{number}" for number in range(10)]
    polled = [name for _ in range(5) for name in feed.poll(many)]
    assert set(polled) == set(many)  # in turn, a few a poll


def test_an_unknown_table_is_not_found(world: TableWorld) -> None:
    for name in ("no-such-table", "order", "a", "x" * 300, "%3Cscript%3E", "a%00b", "ü"):
        for part in ("", "/items", "/heat", "/drift", "/export", "/new", "/item"):
            response = world.get(f"/tables/{name}{part}")
            assert response.status_code == 404
            assert "There is no" in response.text
            assert "<script>" not in response.text


def test_an_unknown_table_is_told_with_names_that_are_near(world: TableWorld) -> None:
    assert "Did you mean orders?" in world.get("/tables/order").text


def test_what_is_past_its_time_is_counted(tmp_path) -> None:  # type: ignore[no-untyped-def]
    world = TableWorld(settings=Settings(ttl_lag_seconds=1e9))
    now = int(world.client.app.state.site.clock.now())  # type: ignore[attr-defined]
    for number, end in enumerate((now - 10, now - 5, now + 1_000, now - 10 * 365 * 86_400)):
        world.put("orders", customer="c", number=number, expires=end)
    world.put("orders", customer="c", number=9, expires="2020-01-01")
    page = world.page("/tables/orders")
    assert "<b>2</b>" in page and "5 items looked at" in page
    world.close()


# ── searches ─────────────────────────────────────────────────────────────────────────────────────


def test_without_a_key_all_items_are_listed_and_pages_neither_repeat_nor_leave_out(world: TableWorld) -> None:
    filled(world)
    seen: list[tuple[str, str]] = []
    path: str | None = "/tables/orders/items"
    while path is not None:
        page = world.page(path)
        seen += [(row[0], row[1]) for row in rows_of(page)]
        found = re.search(r'href="(/tables/orders/items\?[^"]+)" rel="next"', page)
        path = found.group(1).replace("&amp;", "&") if found else None
    assert len(seen) == 120
    assert len(set(seen)) == 120


def test_a_partition_key_makes_a_query_and_the_sort_key_compares_as_a_number(world: TableWorld) -> None:
    filled(world)
    world.switch.calls.clear()
    page = world.page("/tables/orders/items", h="c1", r="100", op=">=", upto="")
    assert "Query" in world.switch.calls and "Scan" not in world.switch.calls
    assert [row[1] for row in rows_of(page)] == ["100", "103", "106", "109", "112", "115", "118"]
    between = world.page("/tables/orders/items", h="c1", r="10", op="between", upto="20", desc="1")
    assert [row[1] for row in rows_of(between)] == ["19", "16", "13", "10"]


def test_an_index_is_searched_by_its_own_key(world: TableWorld) -> None:
    filled(world, 10)
    page = world.page("/tables/orders/items", index="by-city", h="Leeds", r="5", op="<", upto="")
    assert sorted(row[1] for row in rows_of(page)) == ["1", "3"]


def test_filters_have_types_and_their_pages_hold_too(world: TableWorld) -> None:
    filled(world)
    world.put("orders", customer="odd", number=1, total="500")
    one = [("fa", "total"), ("fo", "="), ("ft", "N"), ("fv", "500")]
    assert [row[1] for row in rows_of(world.page(f"/tables/orders/items?{urlencode(one)}"))] == ["50"]
    text = [("fa", "total"), ("fo", "="), ("ft", "S"), ("fv", "500")]
    assert [row[0] for row in rows_of(world.page(f"/tables/orders/items?{urlencode(text)}"))] == ["odd"]
    seen: list[str] = []
    both = [
        ("fa", "total"),
        ("fo", ">="),
        ("ft", "N"),
        ("fv", "100"),
        ("fa", "city"),
        ("fo", "exists"),
        ("ft", "S"),
        ("fv", ""),
    ]
    path: str | None = f"/tables/orders/items?{urlencode(both)}"
    while path is not None:
        page = world.page(path)
        seen += [row[1] for row in rows_of(page)]
        found = re.search(r'href="(/tables/orders/items\?[^"]+)" rel="next"', page)
        path = found.group(1).replace("&amp;", "&") if found else None
    assert sorted(seen, key=int) == [str(number) for number in range(10, 120)]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"h": "c1", "r": "ten", "op": "="}, "is no number"),
        ({"r": "1", "op": "="}, "needs a value of customer"),
        ({"index": "nope"}, "has no index"),
        ({"h": "c1", "r": "1", "op": "between", "upto": ""}, "needs both"),
        ({"h": "c1", "r": "1", "op": "begins"}, "do not begin"),
        ({"h": "c1", "r": "1", "op": "drop"}, "cannot be compared"),
        ({"fa": "a", "fo": "=", "ft": "BOOL", "fv": "maybe"}, "write true or false"),
        ({"fa": "a", "fo": "type", "ft": "S", "fv": "XX"}, "there is no type"),
        ({"fa": "a", "fo": "=", "ft": "B", "fv": "?"}, "is no base64"),
        ({"fa": "a", "fo": "OR", "ft": "S", "fv": "x"}, "there is no operator"),
        ({"from": "nonsense"}, "no token"),
        ({"h": "c1", "fa": "number", "fo": "=", "ft": "N", "fv": "1"}, "primary key"),
    ],
)
def test_a_search_that_cannot_be_says_why_and_keeps_what_was_typed(
    world: TableWorld, fields: dict[str, str], told: str
) -> None:
    response = world.get("/tables/orders/items", **fields)
    assert response.status_code == 400
    assert told in response.text
    if "fa" in fields:
        assert f'value="{fields["fa"]}"' in response.text


def test_an_empty_table_says_what_to_do(world: TableWorld) -> None:
    assert "Make the first one" in world.page("/tables/things/items")
    assert "No item matches" in world.page("/tables/things/items", h="x")


# ── items ────────────────────────────────────────────────────────────────────────────────────────


def test_an_item_is_edited_as_json_and_only_what_differs_is_written(world: TableWorld) -> None:
    world.put("things", id="1", name="old", gone=1, kept={"deep": [1, b"\x00"]}, exact=Decimal("1." + "1" * 37))
    fields = fields_of(world.item_page("things", {"id": {"S": "1"}}))
    item = orjson.loads(fields["item"])
    assert item["exact"] == {"N": "1." + "1" * 37}
    item["name"] = {"S": "new"}
    del item["gone"]
    item["added"] = {"NS": ["3", "2"]}
    response = world.post("/tables/things/item", {**fields, "item": orjson.dumps(item).decode()})
    assert response.status_code == 303
    assert "Saved." in world.page(response.headers["location"])
    found = world.item("things", id="1")
    assert found == {
        "id": "1",
        "name": "new",
        "kept": {"deep": [1, b"\x00"]},
        "exact": Decimal("1." + "1" * 37),
        "added": {2, 3},
    }


def test_what_two_windows_save_is_not_lost_the_second_is_refused_and_told_what_changed(world: TableWorld) -> None:
    world.put("things", id="1", name="old", other="x")
    first = fields_of(world.item_page("things", {"id": {"S": "1"}}))
    second = fields_of(world.item_page("things", {"id": {"S": "1"}}))
    assert (
        world.post("/tables/things/item", {**first, "item": first["item"].replace("old", "first")}).status_code == 303
    )
    mine = second["item"].replace('"x"', '"second"')
    refused = world.post("/tables/things/item", {**second, "item": mine})
    assert refused.status_code == 409
    assert "the item has changed since you looked" in refused.text
    assert re.search(r'<td class="mono">name</td><td>changed</td><td[^>]*>first</td>', refused.text)
    assert world.item("things", id="1") == {"id": "1", "name": "first", "other": "x"}
    again = fields_of(refused.text)
    assert again["item"] == mine
    assert world.post("/tables/things/item", again).status_code == 303  # having seen it, it is their choice
    assert world.item("things", id="1") == {"id": "1", "name": "old", "other": "second"}


def test_a_write_between_the_look_and_the_save_fails_the_save(world: TableWorld) -> None:
    world.put("things", id="1", name="old")
    fields = fields_of(world.item_page("things", {"id": {"S": "1"}}))
    inner = world.switch.inner

    class Meddler:
        name = inner.name

        def execute(self, operation: str, request: dict) -> dict:  # type: ignore[type-arg]
            if operation == "UpdateItem":
                inner.execute("PutItem", {"TableName": "things", "Item": {"id": {"S": "1"}, "name": {"S": "theirs"}}})
            return inner.execute(operation, request)

        def close(self) -> None:
            inner.close()

    world.switch.inner = Meddler()
    refused = world.post("/tables/things/item", {**fields, "item": fields["item"].replace("old", "mine")})
    assert refused.status_code == 409
    assert world.item("things", id="1") == {"id": "1", "name": "theirs"}


def test_an_item_of_very_many_attributes_is_saved_too(world: TableWorld) -> None:
    world.put("things", id="1", **{f"a{number:03d}": number for number in range(300)})
    fields = fields_of(world.item_page("things", {"id": {"S": "1"}}))
    item = orjson.loads(fields["item"])
    item["a250"], item["a299"] = {"S": "changed"}, {"NULL": True}
    assert world.post("/tables/things/item", {**fields, "item": orjson.dumps(item).decode()}).status_code == 303
    found = world.item("things", id="1")
    assert found is not None and (found["a250"], found["a299"], len(found)) == ("changed", None, 301)
    assert world.post("/tables/things/item", fields).status_code == 409
    fresh = fields_of(world.item_page("things", {"id": {"S": "1"}}))
    for count, status in ((141, 400), (140, 303)):
        changed = orjson.loads(fresh["item"]) | {f"a{number:03d}": {"S": "x"} for number in range(count)}
        response = world.post("/tables/things/item", {**fresh, "item": orjson.dumps(changed).decode()})
        assert response.status_code == status


def test_values_of_every_type_are_compared_and_saved_exactly(world: TableWorld) -> None:
    values = {
        "S": "text", "N": "12345678901234567890.12345678901234567", "B": "AAH/", "BOOL": False, "NULL": True,
        "SS": ["a", "b"], "NS": ["1", "2.5"], "BS": ["AA==", "/w=="], "L": [{"N": "1"}, {"L": []}],
        "M": {"a.b": {"M": {"#": {"S": ""}}}},
    }  # fmt: skip
    item = {"id": {"S": "1"}, **{f"is {kind}": {kind: value} for kind, value in values.items()}}
    world.db.execute("PutItem", {"TableName": "things", "Item": item})
    fields = fields_of(world.item_page("things", {"id": {"S": "1"}}))
    copies = {f"copy of {kind}": {kind: value} for kind, value in values.items()}
    sent = {**fields, "item": orjson.dumps({**item, **copies}).decode()}
    assert world.post("/tables/things/item", sent).status_code == 303
    stored = world.db.execute("GetItem", {"TableName": "things", "Key": {"id": {"S": "1"}}})["Item"]
    for name, value in {**item, **copies}.items():
        assert equal(stored.pop(name), value)
    assert stored == {}


def test_an_attribute_that_was_added_meanwhile_is_kept_whatever_happens(world: TableWorld) -> None:
    world.put("things", id="1", name="old")
    fields = fields_of(world.item_page("things", {"id": {"S": "1"}}))
    world.put("things", id="1", name="old", new="theirs")
    refused = world.post("/tables/things/item", {**fields, "item": fields["item"].replace("old", "mine")})
    assert refused.status_code == 409 and "<td>added</td>" in refused.text
    found = world.item("things", id="1")
    assert found is not None and found["new"] == "theirs"


def test_an_item_that_is_gone_is_not_made_again_by_a_save(world: TableWorld) -> None:
    world.put("things", id="1", name="old")
    fields = fields_of(world.item_page("things", {"id": {"S": "1"}}))
    world.db.table("things").delete({"id": "1"})
    response = world.post("/tables/things/item", fields)
    assert response.status_code == 409
    assert "deleted this item" in response.text
    assert world.item("things", id="1") is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "line 1"),
        ("[]", "an item is an object"),
        ('{"id": {"S": "1"}, "a": 1}', "names its type"),
        ('{"id": {"S": "1"}, "a": {"X": 1}}', "there is no type"),
        ('{"id": {"S": "1"}, "a": {"N": 1}}', "also for numbers"),
        ('{"id": {"S": "1"}, "a": {"N": "one"}}', "numeric"),
        ('{"id": {"S": "1"}, "a": {"N": "1"}, "a": {"N": "2"}}', "is there twice"),
        ('{"id": {"S": "1"}, "a": {"SS": ["x", "x"]}}', "duplicates"),
        ('{"id": {"S": "2"}}', "the key is another one"),
        ('{"id": {"N": "1"}}', "is part of the key"),
        ('{"id": {"S": "1"}, "a": ' + '{"L":[' * 50 + "]}" * 50 + "}", "nested too deep"),
        ("[" * 100_000, "nested too deep"),
        ('{"id": {"S": "1"}, "a": {"N": NaN}}', "no JSON"),
        ('{"id": {"S": "1"}, "a": {"S": "\\ud800"}}', "surrogate"),
        ('{"id": {"S": "1"}, "a": ' + "1" * 5_000 + "}", "digits"),
        ('{"id": {"S": "1"}, "": {"S": "x"}}', "Empty attribute name"),
    ],
)
def test_what_is_no_item_is_refused_with_the_reason_and_what_was_typed(world: TableWorld, text: str, told: str) -> None:
    world.put("things", id="1", name="old")
    fields = fields_of(world.item_page("things", {"id": {"S": "1"}}))
    response = world.post("/tables/things/item", {**fields, "item": text})
    assert response.status_code == 400
    assert told in response.text
    assert fields_of(response.text)["item"] == text
    assert fields_of(response.text)["seen"] == fields["seen"]
    assert world.item("things", id="1") == {"id": "1", "name": "old"}


def test_a_new_item_takes_no_others_place(world: TableWorld) -> None:
    fields = fields_of(world.page("/tables/things/new"))
    text = '{"id": {"S": "1"}, "n": {"N": "38"}}'
    assert world.post("/tables/things/new", {**fields, "item": text}).status_code == 303
    assert world.item("things", id="1") == {"id": "1", "n": 38}
    again = world.post("/tables/things/new", {**fields, "item": text.replace("38", "39")})
    assert again.status_code == 400 and "already" in again.text
    assert world.item("things", id="1") == {"id": "1", "n": 38}


def test_an_item_is_deleted_after_a_question_and_only_as_it_was_seen(world: TableWorld) -> None:
    world.put("things", id="1", name="old")
    fields = fields_of(world.item_page("things", {"id": {"S": "1"}}))
    question = world.post("/tables/things/item/delete", fields)
    assert question.status_code == 200 and "Nothing has been done yet" in question.text
    world.put("things", id="1", name="newer")
    assert world.post("/tables/things/item/deleted", fields_of(question.text)).status_code == 409
    assert world.item("things", id="1") is not None
    fresh = fields_of(world.item_page("things", {"id": {"S": "1"}}))
    assert world.post("/tables/things/item/deleted", fresh).status_code == 303
    assert world.item("things", id="1") is None


def test_nothing_is_changed_without_the_forms_token_or_in_read_only_mode(world: TableWorld) -> None:
    world.put("things", id="1", name="old")
    fields = fields_of(world.item_page("things", {"id": {"S": "1"}}))
    for path in (
        "/tables/things/item",
        "/tables/things/item/deleted",
        "/tables/things/item/delete",
        "/tables/things/new",
    ):
        assert world.post(path, {**fields, "csrf": "0" * 64}).status_code == 403
    closed = TableWorld(read_only=True)
    closed.put("things", id="1", name="old")
    page = closed.item_page("things", {"id": {"S": "1"}})
    assert "<textarea" not in page and "Delete" not in page
    token = csrf_of(world.item_page("things", {"id": {"S": "1"}}))
    for path in ("/tables/things/item", "/tables/things/item/deleted", "/tables/things/new"):
        assert closed.post(path, {**fields, "csrf": token}).status_code == 403
    assert closed.item("things", id="1") == {"id": "1", "name": "old"}
    closed.close()


@pytest.mark.parametrize(
    "key", ["", "{", "1", '{"id": {"N": "1"}}', '{"id": {"S": "1"}, "x": {"S": "1"}}', '{"id": {"S": ""}}']
)
def test_a_key_that_is_none_is_not_found(world: TableWorld, key: str) -> None:
    response = world.get("/tables/things/item", key=key)
    assert response.status_code in (400, 404)
    assert "<h1>" in response.text


def test_huge_items_and_bytes_are_cut_and_can_be_downloaded(world: TableWorld) -> None:
    world.put("things", id="1", big="x" * 390_000, raw=bytes(range(256)))
    page = world.item_page("things", {"id": {"S": "1"}})
    assert len(page) < 60_000
    assert "256 bytes" in page and "characters in all" in page
    response = world.get("/tables/things/item.json", key='{"id": {"S": "1"}}')
    assert response.headers["content-disposition"].startswith("attachment")
    assert orjson.loads(response.content)["big"] == {"S": "x" * 390_000}
    assert len(world.page("/tables/things/items")) < 20_000


def test_numbers_of_38_digits_are_shown_whole(world: TableWorld) -> None:
    digits = "12345678901234567890123456789012345678"
    world.put("orders", customer="c", number=int(digits))
    assert rows_of(world.page("/tables/orders/items", h="c"))[0][1] == digits
    assert rows_of(world.page("/tables/orders/items", h="c", r=digits, op="=", upto=""))


def test_html_in_every_field_stays_text(world: TableWorld) -> None:
    world.put("things", **{"id": EVIL, EVIL: EVIL, "map": {EVIL: [EVIL]}, "set": {EVIL}})
    key = orjson.dumps({"id": {"S": EVIL}}).decode()
    pages = [
        world.page("/tables/things/items"),
        world.page("/tables/things/items", h=EVIL),
        world.get("/tables/things/items", fa=EVIL, fo=EVIL, ft=EVIL, fv=EVIL).text,
        world.get("/tables/things/items", index=EVIL).text,
        world.page("/tables/things/item", key=key),
        world.get("/tables/things/item", key=EVIL).text,
        world.get("/tables", definitions=EVIL, env=EVIL, layout=EVIL).text,
        world.get("/tables", **{"from": EVIL}).text,
    ]
    fields = fields_of(pages[4])
    pages.append(world.post("/tables/things/item", {**fields, "item": EVIL}).text)
    pages.append(world.post("/tables/things/item/delete", fields).text)
    world.put("things", **{"id": EVIL, EVIL: "another"})
    pages.append(world.post("/tables/things/item", fields).text)
    for page in pages:
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert " style=" not in page and "<style" not in page


# ── exports ──────────────────────────────────────────────────────────────────────────────────────


def test_an_export_is_what_the_search_finds(world: TableWorld) -> None:
    filled(world)
    response = world.get("/tables/orders/export", format="json", h="c1", r="100", op=">=", upto="")
    assert response.headers["content-disposition"].startswith('attachment; filename="orders.json"')
    told = orjson.loads(response.content)
    assert [item["number"]["N"] for item in told["items"]] == ["100", "103", "106", "109", "112", "115", "118"]
    assert told["count"] == 7 and told["complete"] is True
    lines = list(csv.DictReader(io.StringIO(world.get("/tables/orders/export", format="csv").text)))
    assert len(lines) == 120
    assert {line["total"] for line in lines} == {str(number * 10) for number in range(120)}


def test_a_csv_holds_nothing_that_a_spreadsheet_would_run(world: TableWorld) -> None:
    texts = ["=1+1", "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1", "fine", "a=b", "-12", "-1.5E+3"]
    for number, text in enumerate(texts):
        world.put("things", **{"id": f"{number:02d}", "text": text, "=name": Decimal("-5")})
    rows = list(csv.reader(io.StringIO(world.get("/tables/things/export", format="csv").text, newline="")))
    assert rows[0] == ["id", "'=name", "text", "(other attributes)"]
    cells = {row[0]: row[2] for row in rows[1:]}
    assert [cells[f"{number:02d}"] for number in range(len(texts))] == [
        *(f"'{text}" for text in texts[:8]),
        *texts[8:],
    ]
    assert all(row[1] == "-5" for row in rows[1:])
    assert escape_formula("") == ""


def test_attributes_that_only_later_items_have_are_in_the_last_column(world: TableWorld) -> None:
    with world.db.table("things").batch() as batch:
        for number in range(1_500):
            batch.put({"id": f"{number:05d}", "n": number, **({"late": "x"} if number == 1_499 else {})})
    rows = list(csv.reader(io.StringIO(world.get("/tables/things/export", format="csv").text)))
    assert len(rows) == 1_501
    assert any("late" in (*rows[0], row[-1]) or "late" in row[-1] for row in rows)


def test_an_export_has_an_end_and_says_so(world: TableWorld) -> None:
    filled(world)
    export = Export(world.db.execute, ORDERS, Search(), most=50)
    told = orjson.loads(b"".join(export.json()))
    assert len(told["items"]) == 50 and told["complete"] is False
    assert b"there are more" in b"".join(export.csv()).splitlines()[-1]
    assert orjson.loads(b"".join(Export(world.db.execute, ORDERS, Search(), most=120).json()))["complete"] is True


def test_an_export_that_cannot_be_says_why(world: TableWorld) -> None:
    assert world.get("/tables/orders/export", format="xml").status_code == 400
    assert world.get("/tables/orders/export", format="csv", h="c", r="x", op="=").status_code == 400
    assert orjson.loads(world.get("/tables/things/export", format="json").content)["items"] == []


# ── heat ─────────────────────────────────────────────────────────────────────────────────────────


def test_heat_shows_partitions_the_hottest_keys_and_why_calls_were_throttled() -> None:
    limits = Throttling(partition_write_units=5, burst_seconds=1)
    world = TableWorld(settings=Settings(throttling=limits))
    put = {"TableName": "things", "Item": {"id": {"S": EVIL}}}
    refused = 0
    for _ in range(60):
        try:
            world.db.execute("PutItem", put)
        except DynamoDBError:
            refused += 1
    assert refused
    page = world.page("/tables/things/heat")
    assert '<svg class="heat-map"' in page
    assert "TableWriteKeyRangeThroughputExceeded" in page
    assert "One partition is too hot" in page
    assert "heat-9" in page and "heat-throttled" in page
    assert "<script>alert" not in page
    assert "Nothing of this table" in world.page("/tables/orders/heat")
    world.close()


def test_where_nobody_counts_it_says_how_to(world: TableWorld) -> None:
    assert "penstock serve --db FILE --throttle" in world.page("/tables/orders/heat")


# ── drift ────────────────────────────────────────────────────────────────────────────────────────


def test_drift_compares_with_a_system_and_with_nothing_else_that_a_form_names(world: TableWorld) -> None:
    page = world.page("/tables", definitions="account-records")
    assert "not there" in page and "to create" in page
    for name in ("os:environ", "tests", "../..", "dashboard_tables_world:ORDERS", "/etc"):
        response = world.get("/tables", definitions=name)
        assert response.status_code == 400
        assert "may not be named here" in response.text


def test_definitions_that_are_not_there_are_told_before_anything_is_served() -> None:
    result = CliRunner().invoke(up.command, ["--db", ":memory:", "--port", "0", "--definitions", "no_such_module:all"])
    assert isinstance(result.exception, LoadingError)
    assert "there is no module no_such_module" in str(result.exception)


def test_drift_from_the_command_lines_own_definitions() -> None:
    wanted = Table(
        "orders",
        key=("customer:S", "number:N"),
        indexes=[*ORDERS.indexes, Index("by-total", "total:N")],
        ttl="expires",
        stream="NEW_IMAGE",
    )
    world = TableWorld(definitions=Definitions("mytables:all", (wanted,), prefix=""))
    page = world.page("/tables/orders/drift")
    assert "+ index by-total (total)" in page and "mytables:all" in page
    assert "has no table of this name" in world.page("/tables/things/drift", definitions="own")
    assert "None of the definitions" in world.page("/tables/things/drift")
    world.close()


# ── at large ─────────────────────────────────────────────────────────────────────────────────────


def test_every_page_about_tables_has_the_strict_policy(world: TableWorld) -> None:
    filled(world, 3)
    for path in ("", "/orders", "/orders/items", "/orders/heat", "/orders/drift", "/orders/new", "/nope"):
        response = world.get(f"/tables{path}")
        assert response.headers["content-security-policy"] == POLICY
        assert re.findall(r"<script(?! src=)", response.text) == []
        assert not re.search(r"\son\w+=|\sstyle=", response.text)


def test_a_database_that_goes_away_is_told_of(world: TableWorld) -> None:
    world.put("things", id="1")
    fields = fields_of(world.item_page("things", {"id": {"S": "1"}}))
    world.switch.away = True
    for path in ("/tables", "/tables/things", "/tables/things/items", "/tables/things/export", "/tables/things/drift"):
        response = world.get(path)
        assert response.status_code == 503
        assert "The database does not answer." in response.text
    assert world.post("/tables/things/item", fields).status_code == 503
    world.switch.away = False
    assert world.post("/tables/things/item", fields).status_code == 303


def test_looking_writes_nothing(world: TableWorld) -> None:
    filled(world, 5)
    world.switch.calls.clear()
    for path in ("", "/orders", "/orders/items", "/orders/heat", "/orders/drift", "/orders/export"):
        world.page(f"/tables{path}")
    reads = {"ListTables", "DescribeTable", "DescribeTimeToLive", "Scan", "Query", "GetItem"}
    reads |= {"DescribeContinuousBackups", "ListTagsOfResource"}
    assert set(world.switch.calls) <= reads
