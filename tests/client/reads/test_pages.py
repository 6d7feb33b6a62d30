"""Reading page by page: nothing missed, nothing twice, from any place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock import F
from penstock.client.items.values import InvalidValue
from penstock.client.reads.pages import Cursor, InvalidToken, Items, read_pages

COUNT = 40


@pytest.fixture
def filled(expenses):
    """Forty items in one partition; every third has a mark."""
    expenses.batch_write(
        {"company": "c1", "number": n, "email": "a@example.org", **({"mark": n} if n % 3 == 0 else {})}
        for n in range(COUNT)
    )
    return expenses


def numbers(items):
    return [item["number"] for item in items]


def test_pages_are_turned_by_themselves(filled):
    items = filled.query(company="c1", page_size=7)
    assert numbers(items) == list(range(COUNT))
    assert (items.scanned, items.returned, items.requests) == (COUNT, COUNT, 6)
    assert items.token is None
    assert next(items, None) is None


def test_nothing_is_read_before_it_is_asked_for(filled):
    items = filled.query(company="c1", page_size=7)
    assert items.requests == 0
    next(items)
    assert items.requests == 1


def test_a_limit_counts_items_given_not_items_scanned(filled):
    marked = filled.query(company="c1", filter=F("mark").exists(), limit=5, page_size=4)
    assert numbers(marked) == [0, 3, 6, 9, 12]
    exact = filled.query(company="c1", limit=5)
    assert numbers(exact) == [0, 1, 2, 3, 4]
    assert exact.scanned == 5  # no more is paid for than is given


def test_whole_pages_may_be_taken(filled):
    items = filled.query(company="c1", page_size=15)
    sizes, tokens = [], []
    for page in items.pages():
        sizes.append(len(page))
        tokens.append(items.token)
    assert sizes == [15, 15, 10]
    assert tokens[-1] is None
    assert numbers(filled.query(company="c1", token=tokens[0])) == list(range(15, COUNT))


@pytest.mark.parametrize("page_size", [None, 1, 7, 40, 41])
def test_a_query_goes_on_after_the_last_item_given(filled, page_size):
    for stop in (0, 1, 6, 7, 8, 39, 40):
        items = filled.query(company="c1", page_size=page_size)
        first = [next(items) for _ in range(stop)]
        token = json.loads(json.dumps(items.token))
        if token is None:
            assert stop == COUNT
            continue
        rest = filled.query(company="c1", token=token)
        assert numbers(first) + numbers(rest) == list(range(COUNT))


@pytest.mark.parametrize("select", [None, ["mark"], ["number", "company"]])
def test_a_filtered_and_selected_query_can_be_resumed_too(filled, select):
    def query(token=None, page_size=9):
        return filled.query(
            company="c1", filter=F("mark").exists(), select=select, newest_first=True, token=token, page_size=page_size
        )

    whole = list(query())
    assert len(whole) == 14
    for stop in range(14):
        items = query()
        first = [next(items) for _ in range(stop)]
        assert first + list(query(items.token, page_size=4)) == whole


def test_what_is_deleted_after_the_place_does_not_move_it(filled):
    items = filled.query(company="c1", page_size=20)
    first = [next(items) for _ in range(10)]
    for n in range(10):
        filled.delete({"company": "c1", "number": n})
    assert numbers(first) + numbers(filled.query(company="c1", token=items.token)) == list(range(COUNT))


def test_an_index_and_a_scan_can_be_resumed(filled):
    for read in (
        lambda **more: filled.query(index="by-email", email="a@example.org", **more),
        lambda **more: filled.scan(**more),
        lambda **more: filled.scan(index="by-email", **more),
        lambda **more: filled.scan(segment=0, segments=1, **more),
    ):
        items = read(page_size=6)
        first = [next(items) for _ in range(9)]
        assert sorted(numbers(first) + numbers(read(token=items.token))) == list(range(COUNT))


def test_a_limited_query_says_where_the_next_one_begins(filled):
    token, seen = None, []
    while True:
        items = filled.query(company="c1", limit=9, token=token)
        seen += numbers(items)
        token = items.token
        if token is None:
            break
    assert seen == list(range(COUNT))


def test_a_token_of_another_query_is_refused(filled):
    items = filled.query(company="c1")
    next(items)
    for other in (
        {"company": "c2"},
        {"company": "c1", "newest_first": True},
        {"company": "c1", "filter": F("mark").exists()},
        {"company": "c1", "sort": F("number") > 3},
    ):
        with pytest.raises(InvalidToken, match="another query"):
            filled.query(**other, token=items.token)
    with pytest.raises(InvalidToken, match="another query"):
        filled.scan(token=items.token)


def test_what_is_no_token_is_refused(expenses):
    for token in ("", "x", "e30", "WzFd", "WzEsMSwxLDFd", "é", "[]"):
        with pytest.raises(InvalidToken):
            expenses.scan(token=token)


def test_a_segment_needs_its_number(expenses):
    with pytest.raises(ValueError, match="go together"):
        expenses.scan(segment=1)


@settings(max_examples=30)
@given(st.lists(st.integers(1, 8), min_size=1, max_size=12), st.booleans())
def test_any_walk_in_pieces_gives_each_item_once(pieces, filtered):
    with penstock.connect() as db:
        db.execute(
            "CreateTable",
            {
                "TableName": "walked",
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "N"}],
                "BillingMode": "PAY_PER_REQUEST",
            },
        )
        table = db.table("walked")
        table.batch_write({"id": n, "odd": n % 2} for n in range(30))
        condition = F("odd") == 1 if filtered else None
        seen, token, turn = [], None, 0
        while turn == 0 or token is not None:
            piece = pieces[turn % len(pieces)]
            items = table.scan(filter=condition, token=token, limit=piece, page_size=pieces[-1])
            seen += [item["id"] for item in items]
            token, turn = items.token, turn + 1
        assert sorted(seen) == [n for n in range(30) if not filtered or n % 2]


def test_items_and_pages_may_be_taken_in_turn(filled):
    items = filled.query(company="c1", page_size=15)
    first = [next(items), next(items)]
    pages = items.pages()
    rest_of_page = next(pages)
    assert (items.returned, items.requests) == (15, 1)
    assert numbers(first + rest_of_page + list(items)) == list(range(COUNT))
    assert list(pages) == []


def test_a_page_that_cannot_be_read_is_asked_for_again_and_not_passed_over():
    answers = [
        {"Items": [{"id": {"S": "a"}}], "LastEvaluatedKey": {"id": {"S": "a"}}},
        {"Items": [{"id": {}}], "LastEvaluatedKey": {"id": {"S": "b"}}},
        {"Items": [{"id": {"S": "b"}}]},
    ]
    asked = []

    def execute(operation, request):
        asked.append(request.get("ExclusiveStartKey"))
        return answers.pop(0)

    items = Items(Cursor("Scan", {"TableName": "t"}), execute)
    assert next(items) == {"id": "a"}
    with pytest.raises(InvalidValue, match="without a type"):
        next(items)
    assert list(items) == [{"id": "b"}]
    assert asked == [None, {"id": {"S": "a"}}, {"id": {"S": "a"}}]


def test_answers_are_read_to_the_last_page_and_a_changed_limit_holds_for_the_next(filled):
    request = {
        "TableName": filled.name,
        "KeyConditionExpression": "company = :c",
        "ExpressionAttributeValues": {":c": {"S": "c1"}},
        "Limit": 10,
    }
    counts = []
    for answer in read_pages(filled._database.execute, "Query", request):
        counts.append(answer["Count"])
        request["Limit"] = 20
    assert counts[:2] == [10, 20]
    assert sum(counts) == COUNT
    assert "ExclusiveStartKey" not in request
