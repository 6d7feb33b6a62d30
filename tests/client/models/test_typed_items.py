"""Typed items: what a class stores, what comes back, versions, several classes in one table."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel

import penstock
from penstock import Attr, F, Table, attr, item
from penstock.client.items.values import InvalidValue
from penstock.client.models.converters import BadModel
from penstock.client.models.records import InvalidItem
from penstock.tables.definitions.aws_shapes import create_request

DAY = datetime(2026, 11, 18, 7, 11, tzinfo=UTC)


class Colour(Enum):
    RED = "red"


@dataclass
class Card:
    number: str
    kind: Literal["card"] = "card"


@dataclass
class Cash:
    amount: Decimal
    kind: Literal["cash"] = "cash"


@item("users")
class User:
    email: Attr[str] = attr(key=True)
    company: Attr[str] = attr(index="by-company")
    joined: Attr[datetime] = attr(index_sort="by-company", default=DAY)
    visits: Attr[int] = attr(default=0)
    nick: Attr[str | None] = attr(default=None)
    tags: Attr[set[str]] = attr(default_factory=set)
    paid: Attr[Card | Cash | None] = attr(default=None)
    expires: Attr[datetime | None] = attr(ttl=True, default=None)
    version: Attr[int] = attr(version=True, default=0)
    rest: Attr[dict[str, Any]] = attr(rest=True, default_factory=dict)


class Account(BaseModel):
    __item__ = item("accounts")

    id: Annotated[UUID, attr(key=True)]
    colour: Colour = Colour.RED
    balance: Decimal = Decimal(0)


@item("shop", keys={"pk": "CUSTOMER#{customer}", "sk": "PROFILE"})
class Customer:
    customer: Attr[str]
    name: Attr[str]


@item("shop", keys={"pk": "CUSTOMER#{customer}", "sk": "ORDER#{number:06}"})
class Order:
    customer: Attr[str]
    number: Attr[int]
    total: Attr[Decimal]


@pytest.fixture
def shop():
    with penstock.connect() as opened:
        for table in (Table.of(User), Table.of(Account), Table.of(Customer, Order)):
            opened.execute("CreateTable", create_request(table, table.name))
        yield opened


def test_what_is_put_comes_back_equal_and_of_its_type(shop):
    users = shop.table(User)
    user = User("a@x", "acme", nick="A", tags={"new"}, paid=Cash(Decimal("1.5")), expires=DAY, rest={"other": 1})
    users.put(user)
    assert users.get("a@x") == user
    assert users.get("b@x") is None
    raw = shop.table("users").get({"email": "a@x"})
    assert raw["expires"] == int(DAY.timestamp())
    assert raw["joined"] == "2026-11-18T07:11:00.000000+00:00"
    assert raw["other"] == 1


def test_none_and_an_empty_set_are_not_stored(shop):
    shop.table(User).put(User("a@x", "acme"))
    assert not {"nick", "tags", "paid", "expires"} & set(shop.table("users").get({"email": "a@x"}))
    assert [user.email for user in shop.table(User).scan(filter=User.nick == None)] == ["a@x"]  # noqa: E711


def test_attributes_of_another_program_survive_a_rewrite(shop):
    shop.table("users").put({"email": "a@x", "company": "acme", "theirs": {"deep": [1]}})
    user = shop.table(User).get("a@x")
    user.visits = 5
    shop.table(User).put(user)
    assert shop.table("users").get({"email": "a@x"})["theirs"] == {"deep": [1]}


def test_a_second_writer_of_one_version_is_refused_and_its_instance_keeps_its_version(shop):
    users = shop.table(User)
    users.put(User("a@x", "acme"))
    mine, theirs = users.get("a@x"), users.get("a@x")
    users.put(theirs)
    for write in (lambda: users.put(mine), lambda: users.update(mine, User.visits.set(1)), lambda: users.delete(mine)):
        with pytest.raises(penstock.VersionConflict, match="version 1 was expected, and the item has 2") as failed:
            write()
        assert (failed.value.expected, failed.value.found, mine.version) == (1, 2, 1)
    users.delete(theirs)


def test_a_condition_of_the_callers_own_is_no_conflict(shop):
    users = shop.table(User)
    users.put(user := User("a@x", "acme"))
    with pytest.raises(penstock.ConditionFailed) as failed:
        users.put(user, if_=User.visits > 5)
    assert not isinstance(failed.value, penstock.VersionConflict)


def test_an_update_takes_changes_of_attributes_and_counts_the_version(shop):
    users = shop.table(User)
    users.put(User("a@x", "acme", nick="A"))
    after = users.update(
        "a@x",
        User.visits.set(User.visits + 2),
        User.tags.add({"x"}),
        User.nick.set(None),
        if_=(User.company == "acme") & User.tags.missing(),
        return_new=True,
    )
    assert (after.visits, after.tags, after.nick, after.version) == (2, {"x"}, None, 2)
    assert users.update("a@x", set={F("visits"): 9}, return_new=True).visits == 9


def test_a_query_finds_its_index_by_its_conditions(shop):
    users = shop.table(User)
    days = [DAY.replace(day=day) for day in (1, 2, 3)]
    assert users.batch_put(User(f"{day.day}@x", "acme", day) for day in days) == 3
    found = users.query(User.company == "acme", User.joined.between(days[1], days[2]), newest_first=True)
    assert [user.email for user in found] == ["3@x", "2@x"]
    assert [user.email for user in users.query(company="acme", limit=1)] == ["1@x"]
    assert [user.email for user in users.batch_get(["3@x", "none", "1@x"])] == ["3@x", "1@x"]
    with pytest.raises(ValueError, match="the partition key is missing"):
        users.query(User.visits == 1)


def test_a_token_resumes_in_the_middle_of_a_page(shop):
    users = shop.table(User)
    users.batch_put(User(f"{n}@x", "acme") for n in range(5))
    some = users.scan()
    first = [next(some).email, next(some).email]
    assert len({*first, *(user.email for user in users.scan(token=some.token))}) == 5


def test_a_pydantic_model_is_stored_by_its_annotations(shop):
    accounts = shop.table(Account)
    account = Account(id=uuid4(), balance=Decimal("2.50"))
    accounts.put(account)
    assert accounts.get(account.id) == account
    assert [one.id for one in accounts.scan(filter=F("colour") == Colour.RED)] == [account.id]


def test_several_classes_of_one_table_are_read_by_their_keys(shop):
    both = shop.table(Customer, Order)
    for one in (Customer("c1", "Ann"), Order("c1", 7, Decimal(5)), Order("c2", 8, Decimal(6))):
        both.put(one)
    assert list(both.query(Customer.customer == "c1")) == [Order("c1", 7, Decimal(5)), Customer("c1", "Ann")]
    assert list(shop.table(Order).query(Order.customer == "c1")) == [Order("c1", 7, Decimal(5))]
    assert shop.table(Customer).get("c1") == Customer("c1", "Ann")
    assert shop.table("shop").get({"pk": "CUSTOMER#c1", "sk": "ORDER#000007"})["total"] == 5


def test_values_of_other_types_are_refused_with_their_place(shop):
    with pytest.raises(InvalidValue, match="visits: a str, where int is annotated"):
        shop.table(User).put(User("a@x", "acme", visits="many"))
    shop.table("users").put({"email": "a@x", "company": "acme", "visits": "many"})
    with pytest.raises(InvalidItem, match="User: visits: the item has S 'many', where int is annotated"):
        shop.table(User).get("a@x")
    shop.table("users").put({"email": "a@x"})
    with pytest.raises(InvalidItem, match="company: the item does not have it"):
        shop.table(User).get("a@x")


def test_a_class_that_cannot_be_stored_says_why():
    @item("t")
    class NoKey:
        name: Attr[str]

    with penstock.connect() as shop, pytest.raises(BadModel, match="0 attributes with key=True"):
        shop.table(NoKey)


def test_the_same_with_asyncio(tmp_path):
    async def main():
        async with penstock.connect_async(str(tmp_path / "x.shop")) as shop:
            await shop.execute("CreateTable", create_request(Table.of(User), "users"))
            users = shop.table(User)
            await users.put(user := User("a@x", "acme"))
            stale = await users.get("a@x")
            await users.update(user, User.visits.set(4))
            with pytest.raises(penstock.VersionConflict):
                await users.put(stale)
            return [one.visits async for one in users.query(User.company == "acme")]

    assert asyncio.run(main()) == [4]
