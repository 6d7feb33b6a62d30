"""Typed items in transactions, batches and parallel scans, and a write whose first answer was lost."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

import penstock
from penstock import Attr, F, Table, attr, item
from penstock.client.database import Database
from penstock.client.models.converters import BadModel
from penstock.client.wrappers.retries import RequestRetries, Retrying
from penstock.errors import TimedOut
from penstock.tables.definitions.aws_shapes import create_request


@item("users")
class User:
    email: Attr[str] = attr(key=True)
    visits: Attr[int] = attr(default=0)
    tags: Attr[set[str]] = attr(default_factory=set)
    version: Attr[int] = attr(version=True, default=0)


@item("shop", keys={"pk": "C#{customer}", "sk": "PROFILE"})
class Customer:
    customer: Attr[str]


@item("shop", keys={"pk": "C#{customer}", "sk": "ORDER#{number:04}"}, indexes={"by-state": {"state_key": "{state}"}})
class Order:
    customer: Attr[str]
    number: Attr[int]
    state: Attr[str | None] = attr(default=None)


@item("shop", keys={"pk": "C#{customer}", "sk": "ORDER#{number:04}#{line}"})
class Line:
    customer: Attr[str]
    number: Attr[int]
    line: Attr[int]


def create(store: Any) -> Any:
    for table in (Table.of(User), Table.of(Customer, Order, Line)):
        store.execute("CreateTable", create_request(table, table.name))
    return store


@pytest.fixture
def store():
    with penstock.connect() as opened:
        yield create(opened)


@item("notes")
class Note:
    id: Attr[str] = attr(key=True)
    count: Attr[int] = attr(default=0, name="n")
    title: Attr[str] = attr(default="")
    version: Attr[int] = attr(version=True, default=0)
    others: Attr[dict[str, Any]] = attr(rest=True, default_factory=dict)


@pytest.fixture
def notes(store):
    store.execute("CreateTable", create_request(Table.of(Note), "notes"))
    return store.table(Note)


def test_a_put_after_an_update_of_an_instance_does_not_undo_it(store, notes):
    """Its version is that of the update, so that nothing would refuse it."""
    note = Note("a", others={"old": 1, "kept": 2})
    notes.put(note)
    note.title = "not stored yet"
    assert notes.update(note, Note.count.add(5), set={"new": 3}, remove=["old"]) is None
    after = Note("a", 5, "not stored yet", 2, {"kept": 2, "new": 3})
    assert note == after
    with store.transaction() as t:
        t.update(notes, note, Note.count.set(Note.count + 1), set={"new": 4})
    assert note == Note("a", 6, "not stored yet", 3, {"kept": 2, "new": 4})
    assert notes.update(note, Note.count.add(1), return_old=True).count == 6
    assert (note.count, note.version) == (7, 4)
    notes.put(note)
    assert notes.get("a") == note


def test_an_instance_whose_update_cannot_be_worked_out_keeps_its_old_version(store, notes):
    """So that its next write is refused: what the table has, it does not know."""
    store.table("notes").put({"id": "a", "base": 3, "version": 1})
    note = Note("a", version=1)
    with store.transaction() as t:
        t.update(notes, note, Note.count.set(F("base")))
    assert (note.count, note.version) == (0, 1)
    with pytest.raises(penstock.VersionConflict):
        notes.put(note)
    note = notes.get("a")
    notes.update(note, Note.count.set(F("base") + 1))
    assert (note.count, note.version) == (4, 3)


# ── transactions ─────────────────────────────────────────────────────────────────────────────────


def test_a_transaction_puts_updates_deletes_and_checks_typed_items(store):
    users, shop = store.table(User), store.table(Customer, Order)
    kept, changed, deleted = User("kept"), User("changed"), User("deleted")
    for one in (kept, changed, deleted):
        users.put(one)
    new = User("new")
    with store.transaction() as t:
        t.put(users, new)
        t.update(users, changed, User.visits.add(3), if_=User.visits == 0)
        t.delete(users, deleted)
        t.check(users, kept)
        t.put(shop, Order("c1", 7))
        t.put(store.table("shop"), {"pk": "raw", "sk": "raw"})
        assert (new.version, changed.version) == (0, 1)
    assert (new.version, changed.version, kept.version) == (1, 2, 1)
    assert users.get("changed") == User("changed", 3, version=2)
    assert users.get("deleted") is None
    assert shop.get(Order("c1", 7)) == Order("c1", 7)


def test_a_version_that_another_program_changed_is_a_conflict_of_the_transaction(store):
    users = store.table(User)
    users.put(mine := User("a"))
    users.update("a", User.visits.set(5))
    fresh = User("b")
    for write in (
        lambda t: t.put(users, mine),
        lambda t: t.update(users, mine, User.visits.set(1)),
        lambda t: t.delete(users, mine),
        lambda t: t.check(users, mine),
    ):
        with pytest.raises(penstock.TransactionConflict) as failed, store.transaction() as t:
            t.put(users, fresh)
            write(t)
        conflict = failed.value
        assert isinstance(conflict, penstock.VersionConflict)
        assert isinstance(conflict, penstock.TransactionFailed)
        assert (conflict.expected, conflict.found, conflict.key, conflict.table) == (1, 2, {"email": "a"}, "users")
        assert conflict.item["visits"] == 5
        assert "version 1 was expected, and the item has 2" in str(conflict)
        assert [reason.index for reason in conflict.reasons] == [1]
        assert (mine.version, fresh.version) == (1, 0)
    assert users.get("b") is None


def test_a_condition_of_the_callers_own_is_no_conflict_of_a_transaction(store):
    users = store.table(User)
    users.put(mine := User("a"))
    with pytest.raises(penstock.TransactionFailed) as failed, store.transaction() as t:
        t.put(users, mine, if_=User.visits > 5)
    assert not isinstance(failed.value, penstock.VersionConflict)
    with pytest.raises(ValueError, match="a check needs a condition"):
        store.table(Order).check_action(Order("c1", 1))


def test_a_transaction_reads_instances_of_several_tables(store):
    users, orders = store.table(User), store.table(Order)
    users.put(User("a"))
    orders.put(Order("c1", 7))
    user, order = store.transact_get((users.get_action("a"), orders.get_action(("c1", 7))))
    assert (user, order) == (User("a", version=1), Order("c1", 7))
    assert store.transact_get([users.get_action("a"), users.get_action("b")]) == [User("a", version=1), None]


def test_a_transaction_with_a_job_gives_instances_their_versions(store):
    app = penstock.App(store)

    @app.task()
    def ship() -> None: ...

    users = store.table(User)
    with store.transaction() as t:
        t.put(users, user := User("a"))
        t.enqueue(ship)
    assert user.version == users.get("a").version == 1


# ── batches and scans ────────────────────────────────────────────────────────────────────────────


def test_a_batch_writes_and_deletes_instances_and_keys(store):
    users = store.table(User)
    assert users.batch_put(User(f"{n:03}") for n in range(60)) == 60
    with users.batch() as batch:
        batch.put(User("new"))
        batch.delete("000")
        batch.delete(User("001"))
    assert batch.state.report.done == 3
    assert users.batch_delete([User("002"), "003"]) == 2
    assert {user.email for user in users.scan()} == {"new", *(f"{n:03}" for n in range(4, 60))}


def test_instances_of_a_batch_have_their_versions_only_if_they_were_written(store):
    class Refusing:
        """Leaves every put of "b" unprocessed."""

        def __init__(self, inner):
            self.name, self.inner, self.close = inner.name, inner, inner.close

        def execute(self, operation, request):
            if operation == "BatchWriteItem":
                given = request["RequestItems"]["users"]
                left = [one for one in given if one["PutRequest"]["Item"]["email"]["S"] == "b"]
                rest = [one for one in given if one not in left]
                if rest:
                    self.inner.execute(operation, {"RequestItems": {"users": rest}})
                return {"UnprocessedItems": {"users": left}}
            return self.inner.execute(operation, request)

    users = Database(Refusing(store.transport)).table(User)
    a, b = User("a"), User("b")
    with pytest.raises(penstock.BatchIncomplete), users.batch(deadline_seconds=0) as batch:
        batch.put(a)
        batch.put(b)
    assert (a.version, b.version) == (1, 0)


def test_a_batch_that_checks_versions_tells_each_conflict_and_writes_the_others(store):
    users = store.table(User)
    every = [User(f"{n:02}") for n in range(30)]
    assert users.batch_put(every, check_versions=True) == 30
    users.update("07", User.visits.set(9))
    users.delete("08")
    for one in every:
        one.visits = 1
    with pytest.raises(penstock.BatchIncomplete) as failed:
        users.batch_put(every, check_versions=True)
    errors = {one.item["email"]: one.error for one in failed.value.failed}
    assert {email: (error.expected, error.found) for email, error in errors.items()} == {
        "07": (1, 2),
        "08": (1, None),
    }
    assert all(isinstance(error, penstock.VersionConflict) for error in errors.values())
    assert failed.value.done == 28
    assert {one.email: one.version for one in every if one.version != 2} == {"07": 1, "08": 1}
    assert users.get("07").visits == 9


def test_a_parallel_scan_gives_instances_and_resumes(store):
    users = store.table(User)
    users.batch_put(User(f"{n:03}") for n in range(50))
    with users.parallel_scan(segments=3, workers=2, page_size=4) as scan:
        first = [next(scan).email for _ in range(9)]
    rest = [user.email for user in users.parallel_scan(segments=3, tokens=scan.tokens)]
    assert sorted(first + rest) == [f"{n:03}" for n in range(50)]
    one = [user.email for user in users.scan(segment=0, segments=2)]
    other = [user.email for user in users.scan(segment=1, segments=2)]
    assert len(one) + len(other) == len({*one, *other}) == 50


# ── several classes in one table ─────────────────────────────────────────────────────────────────


def test_items_of_other_classes_are_passed_over(store):
    every = store.table(Customer, Order, Line)
    for one in (Customer("c"), Order("c", 1), Line("c", 1, 1), Line("c", 1, 2), Order("c", 2)):
        every.put(one)
    assert list(store.table(Customer).scan()) == [Customer("c")]
    assert list(store.table(Customer, Line).query(Customer.customer == "c")) == [
        Line("c", 1, 1),
        Line("c", 1, 2),
        Customer("c"),
    ]
    assert len(list(store.table(Customer, Line).parallel_scan())) == 3
    assert list(store.table(Order, Line).query(Order.customer == "c", Order.number == 1)) == [
        Order("c", 1),
        Line("c", 1, 1),
        Line("c", 1, 2),
    ]
    assert len(list(store.table(Line).query(Line.customer == "c", limit=1))) == 1


def test_an_index_is_made_by_a_template_and_is_sparse(store):
    orders = store.table(Order)
    orders.put(Order("c", 1, "open"))
    orders.put(Order("c", 2))
    assert list(orders.query(Order.state == "open")) == [Order("c", 1, "open")]
    assert [order.number for order in orders.scan(index="by-state")] == [1]
    assert "state_key" not in store.table("shop").get({"pk": "C#c", "sk": "ORDER#0002"})
    with pytest.raises(ValueError, match="state is a part of state_key"):
        orders.update(Order("c", 1), Order.state.set("closed"))


@item("pets")
class Pet:
    name: Attr[str] = attr(key=True)
    kind: Attr[Literal["pet"]] = attr(default="pet")


@item("pets")
class Dog(Pet):
    kind: Attr[Literal["dog"]] = attr(default="dog")  # type: ignore[assignment]
    tricks: Attr[int] = attr(default=0)


def test_a_class_that_is_derived_from_another_of_the_table_is_stored_as_itself(store):
    store.execute("CreateTable", create_request(Table.of(Pet, Dog), "pets"))
    pets = store.table(Pet, Dog)
    pets.put(Dog("rex", tricks=3))
    pets.put(Pet("tom"))
    assert sorted(pets.scan(), key=lambda pet: pet.name) == [Dog("rex", tricks=3), Pet("tom")]
    assert pets.get({"name": "rex"}) == Dog("rex", tricks=3)


@item("one")
class First:
    id: Attr[str] = attr(key=True)
    group: Attr[str] = attr(index="by-group")
    expires: Attr[int | None] = attr(ttl=True, default=None)


@item("one")
class OtherIndex:
    id: Attr[str] = attr(key=True)
    group: Attr[str] = attr(index="by-group")
    at: Attr[str] = attr(index_sort="by-group", default="")


@item("one")
class OtherType:
    id: Attr[str] = attr(key=True)
    group: Attr[int] = attr(index="numbers")


@item("one")
class OtherTtl:
    id: Attr[str] = attr(key=True)
    ends: Attr[int | None] = attr(ttl=True, default=None)


@item("one")
class OtherKey:
    id: Attr[int] = attr(key=True)


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (OtherIndex, r"the index by-group: global \(group:S\) in First, global \(group:S, at:S\) in OtherIndex"),
        (OtherType, r"the type of group: S in First, N in OtherType"),
        (OtherTtl, r"the TTL: expires in First, ends in OtherTtl"),
        (OtherKey, r"the key: \(id:S\) in First, \(id:N\) in OtherKey"),
    ],
)
def test_classes_of_one_table_that_disagree_are_refused(store, second, told):
    for refused in (lambda: Table.of(First, second), lambda: store.table(First, second)):
        with pytest.raises(BadModel, match=f"First and {second.__name__} are of one table, one, .*{told}"):
            refused()


# ── a lost answer (item_requests.py, 3) ──────────────────────────────────────────────────────────


class LosesAnswers:
    """Does the next write, and loses its answer; `rival` is what another program does before the repeat."""

    def __init__(self, inner):
        self.name, self.inner, self.close = inner.name, inner, inner.close
        self.loses, self.does, self.rival = False, True, None

    def execute(self, operation, request):
        if not self.loses:
            return self.inner.execute(operation, request)
        self.loses = False
        if self.does:
            self.inner.execute(operation, request)
        if self.rival is not None:
            self.rival()
        raise TimedOut("here", "the answer was lost", sent=True)


@pytest.fixture
def lossy(store):
    network = LosesAnswers(store.transport)
    retrying = Retrying(network, RequestRetries(base_seconds=0))
    return network, Database(retrying).table(User), store.table(User)


def test_a_repeat_of_our_own_write_is_no_conflict(lossy):
    network, users, stored = lossy
    user = User("a", tags={"x"})
    network.loses = True
    users.put(user)
    assert (user.version, stored.get("a").version) == (1, 1)
    network.loses = True
    after = users.update(
        user,
        User.visits.set(User.visits + 2),
        User.tags.add({"y"}),
        return_new=True,
    )
    assert after == stored.get("a") == User("a", 2, {"x", "y"}, 2)
    assert user.version == 2
    network.loses = True
    users.delete(after)
    assert stored.get("a") is None


def test_a_repeat_that_finds_the_write_of_another_is_a_conflict(lossy):
    network, users, stored = lossy
    users.put(User("a"))
    mine = users.get("a")
    network.does, network.rival = False, lambda: stored.put(User("a", 7, version=1))
    for write in (
        lambda: users.put(mine),
        lambda: users.update(mine, User.visits.set(1)),
    ):
        stored.delete("a")
        stored.put(User("a"))
        network.loses = True
        with pytest.raises(penstock.VersionConflict) as failed:
            write()
        assert failed.value.maybe_ours
        assert (mine.version, stored.get("a").visits) == (1, 7)


def test_a_delete_with_a_condition_is_told_that_the_item_is_gone(lossy):
    network, users, _ = lossy
    users.put(user := User("a"))
    network.loses = True
    with pytest.raises(penstock.VersionConflict) as failed:
        users.delete(user, if_=User.visits == 0)
    assert (failed.value.maybe_ours, failed.value.found) == (True, None)


# ── asyncio ──────────────────────────────────────────────────────────────────────────────────────


def test_asyncio_has_what_threads_have(tmp_path):
    sync = {name for name in dir(penstock.client.models.item_table.ItemTable) if not name.startswith("_")}
    both = {name for name in dir(penstock.client.models.item_table.AsyncItemTable) if not name.startswith("_")}
    assert sync == both

    async def main():
        async with penstock.connect_async(str(tmp_path / "x.db")) as store:
            for table in (Table.of(User), Table.of(Customer, Order, Line)):
                await store.execute("CreateTable", create_request(table, table.name))
            users, shop = store.table(User), store.table(Customer, Order, Line)
            assert await users.batch_put(User(f"{n:03}") for n in range(120)) == 120
            found = await users.batch_get([f"{n:03}" for n in range(119, -1, -1)] + ["none"])
            assert [user.email for user in found] == [f"{n:03}" for n in range(119, -1, -1)]
            assert len([user async for user in users.parallel_scan(segments=3, page_size=9)]) == 120
            async with users.batch() as batch:
                await batch.put(User("new"))
                await batch.delete(found[0])
            assert await users.batch_delete(["000", found[1]]) == 2
            assert len(await users.scan(filter=F("email") < "100").all()) == 99
            async with store.transaction() as t:
                t.put(users, mine := User("tx"))
                t.put(shop, Order("c", 1))
            assert mine.version == 1
            got = await store.transact_get((users.get_action("tx"), store.table(Order).get_action(("c", 1))))
            assert got == (User("tx", version=1), Order("c", 1))
            await users.update("tx", User.visits.set(1))
            with pytest.raises(penstock.TransactionConflict):
                async with store.transaction() as t:
                    t.put(users, mine)
            with pytest.raises(penstock.BatchIncomplete) as failed:
                await users.batch_put([mine, User("last")], check_versions=True)
            assert isinstance(failed.value.failed[0].error, penstock.VersionConflict)
            return (await users.get("last")).version

    assert asyncio.run(main()) == 1
