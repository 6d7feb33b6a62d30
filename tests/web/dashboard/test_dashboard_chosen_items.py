"""Several items together, the columns of a list, what a search cost, plain JSON, vectors and live heat."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from decimal import Decimal

import orjson
import pytest
from dashboard_tables_world import EVIL, TableWorld, csrf_of, rows_of

from penstock.engine.settings import Settings
from penstock.jobs.store.store import JobStore
from penstock.tables.apply.apply import apply
from penstock.tables.definitions.aws_shapes import vector_index_shape
from penstock.tables.definitions.definition import Naming, Table, VectorIndex
from penstock.tables.plan.survey import survey
from penstock.web.dashboard import audit
from penstock.web.dashboard.items.item_text import cell, plain_text
from penstock.web.dashboard.pages.tables import view_of
from penstock.web.dashboard.poller import Feed


@pytest.fixture
def world() -> Iterator[TableWorld]:
    found = TableWorld(settings=Settings(heat=True))
    yield found
    found.close()


def key(name: str) -> str:
    return orjson.dumps({"id": {"S": name}}).decode()


def post(world: TableWorld, path: str, **fields: str | list[str]) -> str:
    csrf = csrf_of(world.page("/tables/things/new"))
    response = world.client.post(f"/tables/things{path}", data={"csrf": csrf, **fields})
    return html.unescape(response.text)


def hidden(page: str, name: str) -> list[str]:
    return re.findall(rf'name="{name}" value="([^\n]*?)">', page)


def test_several_items_are_deleted_but_not_one_that_has_changed_since(world: TableWorld) -> None:
    for name in ("a", "b", "c"):
        world.put("things", id=name, n=1)
    JobStore(world.db).create_tables()
    page = post(world, "/items/chosen", do="delete", key=[key("a"), key("b")])
    assert "Delete 2 items?" in page and world.item("things", id="a") is not None
    world.put("things", id="b", n=2)
    page = post(world, "/items/deleted", key=hidden(page, "key"), seen=hidden(page, "seen"))
    assert "1 of 2 deleted" in page and "left alone" in page
    assert world.item("things", id="a") is None
    assert world.item("things", id="b") is not None and world.item("things", id="c") is not None
    (line,) = audit.newest(JobStore(world.db), 5)
    assert (line.who, line.what, line.about) == ("local", "deleted", 'item things {"id":{"S":"a"}}')


def test_several_items_are_duplicated_under_keys_that_are_free(world: TableWorld) -> None:
    for name in ("a", "b"):
        world.put("things", id=name, n=1)
    page = post(world, "/items/chosen", do="duplicate", key=[key("a"), key("b")])
    text = page.partition("<textarea")[2].partition(">\n")[2].partition("</textarea>")[0]
    items = orjson.loads(text)
    items[0]["id"]["S"] = "a2"
    page = post(world, "/items/duplicated", items=orjson.dumps(items).decode())
    assert "1 of 2 made" in page and "There is an item with this key already" in page
    assert world.item("things", id="a2") == {"id": "a2", "n": 1}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "[1]", '[{"id": {"N": "1"}}]', "[" * 5_000, '[{"id": 1}]'])
def test_what_is_no_list_of_items_comes_back_and_nothing_is_saved(world: TableWorld, text: str) -> None:
    assert "Nothing was saved" in post(world, "/items/duplicated", items=text)
    assert rows_of(world.page("/tables/things/items")) == []


def test_nothing_is_done_without_the_token_of_a_form(world: TableWorld) -> None:
    world.put("things", id="a")
    for path in ("chosen", "deleted", "duplicated"):
        fields = {"key": key("a"), "seen": "{}", "items": '[{"id": {"S": "x"}}]'}
        assert world.client.post(f"/tables/things/items/{path}", data=fields).status_code == 403
    assert world.item("things", id="a") is not None and world.item("things", id="x") is None


def test_columns_are_chosen_and_what_the_search_cost_is_said(world: TableWorld) -> None:
    for number in range(12):
        world.put("things", id=f"t{number}", **{f"a{place:02d}": place for place in range(12)})
    page = world.page("/tables/things/items")
    assert re.search(r"Scan: 12 items read, [\d.]+ read unit", page)
    assert "<th>a11</th>" not in page and 'name="c" value="a11"' in page
    page = world.page("/tables/things/items", c="a11", h="t3")
    assert rows_of(page) == [["t3", "11", "+11"]]
    assert "Query: 1 item read" in page
    assert "&lt;script&gt;alert(1)" in world.page("/tables/things/items", c=EVIL)
    assert "<script>alert" not in world.page("/tables/things/items", c=EVIL)


def test_plain_json_is_json_with_whole_numbers_bytes_and_sets() -> None:
    item = {
        "id": {"B": "AP8="},
        "number": {"N": "12345678901234567890123456789012345678"},
        "small": {"N": "1E-100"},
        "sets": {"M": {"texts": {"SS": ["x", "<y>"]}, "numbers": {"NS": ["1", "3.5"]}, "bytes": {"BS": ["AA=="]}}},
        "empty": {"L": [{"M": {}}, {"L": []}, {"NULL": True}, {"BOOL": False}]},
    }
    assert json.loads(plain_text(item), parse_float=Decimal) == {
        "id": "AP8=",
        "number": 12345678901234567890123456789012345678,
        "small": Decimal("1E-100"),
        "sets": {"texts": ["x", "<y>"], "numbers": [1, Decimal("3.5")], "bytes": ["AA=="]},
        "empty": [{}, [], None, False],
    }
    assert plain_text({"big": {"S": "x" * 30_000}}).endswith("30,015 characters in all")


def test_rows_with_keys_of_bytes_do_not_look_alike() -> None:
    assert cell({"B": "AP8="}) == "AP8=" != cell({"B": "AP4="})
    assert cell({"B": "AAAA" * 100}) == "AAAAAAAAAAAA… 300 bytes"


def test_an_item_is_shown_as_plain_json_too(world: TableWorld) -> None:
    world.put("things", id="a", tags=["x", {"deep": 1}], note=EVIL)
    page = world.item_page("things", {"id": {"S": "a"}})
    plain = html.unescape(page.partition('id="plain"')[2].partition(">")[2].partition("</pre>")[0])
    assert orjson.loads(plain) == {"id": "a", "tags": ["x", {"deep": 1}], "note": EVIL}
    assert "<script>alert" not in page


def test_an_index_links_to_a_query_by_it(world: TableWorld) -> None:
    assert 'href="/tables/orders/items?index=by-city"' in world.page("/tables/orders")


def test_items_are_found_by_a_vector_and_by_that_of_another_item(world: TableWorld) -> None:
    table = Table("papers", key="id:S", vector_indexes=[VectorIndex("by-meaning", "embedding", dimensions=3)])
    apply(world.db, survey(world.db, [table], Naming(prefix="")))
    for name, vector in (("trams", [0.9, 0.1, 0.0]), ("buses", [0.8, 0.2, 0.1]), ("tulips", [0.0, 0.2, 0.9])):
        world.put("papers", id=name, embedding=vector, title=EVIL)
    world.put("papers", id="draft")
    page = world.page("/tables/papers/similar", vector="[1, 0, 0]", top="2")
    assert re.findall(r'item\?key=[^"]+">(\w+)</a>', page) == ["trams", "buses"]
    assert "<script>alert" not in page
    page = world.page("/tables/papers/similar", key='{"id":{"S":"tulips"}}')
    assert re.findall(r'item\?key=[^"]+">(\w+)</a>', page)[0] == "tulips"
    assert "Similar by by-meaning" in world.item_page("papers", {"id": {"S": "trams"}})
    assert "Similar by" not in world.item_page("papers", {"id": {"S": "draft"}})
    for wrong in ("[1, 2]", "{}", "[", "[true]", '["a"]', "[1e999]", "[null]"):
        response = world.get("/tables/papers/similar", vector=wrong)
        assert response.status_code == 400 and 'role="alert"' in response.text, wrong
    assert world.get("/tables/papers/similar", key='{"id":{"S":"draft"}}').status_code == 400
    assert world.get("/tables/things/similar").status_code == 404


def test_a_vector_index_that_is_made_or_deleted_shows_its_state_and_is_in_motion() -> None:
    world = TableWorld(settings=Settings(index_delay_seconds=3_600))
    world.put("things", id="a", embedding=[1, 0, 0])
    created = vector_index_shape(VectorIndex("by-meaning", "embedding", dimensions=3, projection=["Home_Town"]))
    request = {"TableName": "things", "VectorIndexUpdates": [{"Create": created}]}
    world.db.execute("UpdateTable", request)
    description = world.db.execute("DescribeTable", {"TableName": "things"})["Table"]
    assert view_of(description).in_motion
    feed: Feed = world.client.app.state.poller.feeds["table"]  # type: ignore[attr-defined]
    for page in (world.page("/tables/things"), feed.poll(["things"])["things"][0].html):
        assert "by-meaning" in page and ">creating<" in page and 'similar?index=by-meaning"' not in page
        assert "Home_Town" in page, "a name is shown as it is"
    assert re.search(r"by-meaning creating", world.page("/tables"))
    fragment = world.client.app.state.site.fragment  # type: ignore[attr-defined]
    for status, is_in_motion in (("DELETING", True), ("ACTIVE", False)):
        view = view_of({**description, "VectorIndexes": [{**description["VectorIndexes"][0], "IndexStatus": status}]})
        shown = fragment("table_live.html", view=view)
        assert view.in_motion is is_in_motion and "by-meaning" in shown
        assert (">deleting<" in shown) is is_in_motion and ('similar?index=by-meaning"' in shown) is not is_in_motion
    world.close()


def test_the_heat_of_a_table_is_live(world: TableWorld) -> None:
    world.put("things", id="cold")
    page = world.page("/tables/things/heat")
    assert 'data-live="/live/heat?key=things"' in page
    feed: Feed = world.client.app.state.poller.feeds["heat"]  # type: ignore[attr-defined]
    before = feed.poll(["things"])["things"][0].html
    for _ in range(20):
        world.put("things", id="hot")
    after = feed.poll(["things"])["things"][0].html
    assert "hot</td>" in after and "hot</td>" not in before
    assert "Nobody counts" not in after and feed.poll(["\n<b>"])["\n<b>"][0].html.count("<b>") == 0
