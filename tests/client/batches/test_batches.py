"""Batches: everything is written, or is told."""

from __future__ import annotations

import pickle
import threading
from random import Random

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock import BatchIncomplete
from penstock.client.batches.batch_queue import RefusalBackoff
from penstock.client.batches.batches import BatchOptions
from penstock.client.items.values import InvalidValue
from penstock.client.wrappers.faults import Faults, Rates
from penstock.client.wrappers.pacing import Pacer
from penstock.clock import ManualClock
from penstock.errors import (
    AccessDeniedException,
    ProvisionedThroughputExceededException,
    ResourceNotFoundException,
    ValidationException,
)
from penstock.retry import Backoff


def item(number, **more):
    return {"company": "c1", "number": number, **more}


def key(number):
    return {"company": "c1", "number": number}


def numbers(items):
    return sorted(each["number"] for each in items)


class Between:
    """A transport that lets a test answer in the place of the database."""

    def __init__(self, inner, answer):
        self.name = inner.name
        self._inner = inner
        self._answer = answer
        self.requests = []

    def execute(self, operation, request):
        if operation not in ("BatchWriteItem", "BatchGetItem"):
            return self._inner.execute(operation, request)
        self.requests.append(request)
        return self._answer(request, lambda changed: self._inner.execute(operation, changed))

    def close(self):
        self._inner.close()


def through(db, answer):
    """The table behind `answer`, and the transport that holds it."""
    between = Between(db.transport, answer)
    return penstock.Database(between).table("expenses"), between


def quick(clock=None, **more):
    """Options whose waiting only moves a clock."""
    clock = clock or ManualClock()
    return BatchOptions(clock=clock, sleep=clock.advance, **more)


def test_any_number_of_items_is_written(expenses):
    report = expenses.batch_write((item(n) for n in range(1_003)), [])
    assert (report.done, report.replaced, report.requests, report.unprocessed) == (1_003, 0, 41, 0)
    assert numbers(expenses.scan()) == list(range(1_003))
    report = expenses.batch_write(deletes=(key(n) for n in range(1_000)), workers=3)
    assert report.done == 1_000
    assert numbers(expenses.scan()) == [1000, 1001, 1002]


def test_nothing_to_do_is_no_call(db):
    table, between = through(db, lambda request, go: go(request))
    assert table.batch_write().requests == 0
    assert list(table.batch_get([])) == []
    assert between.requests == []


def test_the_last_action_on_a_key_wins(expenses):
    with expenses.batch(workers=4) as batch:
        for n in range(400):
            batch.put(item(n % 7, n=n))
        batch.delete(key(3))
        batch.put(item(4, n="last"))
    assert batch.report.done + batch.report.replaced == 402
    found = {each["number"]: each["n"] for each in expenses.scan()}
    assert found == {0: 399, 1: 393, 2: 394, 4: "last", 5: 397, 6: 398}


def test_a_number_and_its_equal_are_one_key(expenses):
    expenses.batch_write([item(1, n="first"), item(1.0, n="second")])
    assert list(expenses.scan()) == [item(1, n="second")]


def test_a_second_action_on_a_key_can_be_refused(expenses):
    with pytest.raises(InvalidValue, match="already has an action on this key"):
        expenses.batch_write([item(1), *(item(n) for n in range(100, 200)), item(1)], duplicates="refuse")


def test_requests_are_split_by_size_too():
    bodies = []

    class Weighing:
        name = "scales"

        def execute(self, operation, request):
            bodies.append(len(orjson.dumps(request)))
            return {}

        def close(self):
            pass

    table = penstock.Database(Weighing()).table("expenses", key=("company:S", "number:N"))
    # One byte in DynamoDB and six in JSON: 25 such items are far more than 16 MB.
    assert table.batch_write(item(n, text="\x01" * 300_000) for n in range(25)).done == 25
    assert len(bodies) == 3
    assert max(bodies) <= 16 * 1024 * 1024


def test_what_comes_back_unprocessed_is_sent_again(db):
    random = Random(5)

    def leave_some(request, go):
        (writes,) = request["RequestItems"].values()
        back = [write for write in writes if random.random() < 0.3]
        go_on = [write for write in writes if write not in back]
        if go_on:
            go({"RequestItems": {"expenses": go_on}})
        return {"UnprocessedItems": {"expenses": back} if back else {}}

    table, _ = through(db, leave_some)
    report = table.batch_write((item(n) for n in range(500)), options=quick())
    assert report.done == 500
    assert report.unprocessed > 100
    assert numbers(table.scan()) == list(range(500))


def test_what_is_never_processed_is_raised_with_its_items_at_the_deadline(db):
    def refuse_odd(request, go):
        (writes,) = request["RequestItems"].values()
        odd = [write for write in writes if int(write["PutRequest"]["Item"]["number"]["N"]) % 2]
        even = [write for write in writes if write not in odd]
        if even:
            go({"RequestItems": {"expenses": even}})
        return {"UnprocessedItems": {"expenses": odd} if odd else {}}

    clock = ManualClock()
    began = clock.now()
    table, _ = through(db, refuse_odd)
    with pytest.raises(BatchIncomplete) as failed:
        table.batch_write((item(n, t=0.5) for n in range(100)), options=quick(clock, deadline_seconds=30))
    assert failed.value.done == 50
    assert numbers(each.item for each in failed.value.failed) == list(range(1, 100, 2))
    assert {each.action for each in failed.value.failed} == {"put"}
    assert "50 of 100 could not be done" in str(failed.value)
    assert 30 <= clock.now() - began < 60
    assert numbers(table.scan()) == list(range(0, 100, 2))
    assert pickle.loads(pickle.dumps(failed.value)).failed == failed.value.failed


def test_a_throttled_request_is_tried_until_it_passes(db):
    turns = []

    def throttle_five_times(request, go):
        turns.append(1)
        if len(turns) <= 5:
            raise ProvisionedThroughputExceededException("slow down")
        return go(request)

    table, _ = through(db, throttle_five_times)
    assert table.batch_write([item(1)], options=quick()).done == 1
    assert len(turns) == 6


def test_one_bad_item_does_not_take_its_neighbours_with_it(db, expenses):
    with pytest.raises(BatchIncomplete) as failed:
        # The index's key is a string: DynamoDB refuses the whole request for the one that is not.
        expenses.batch_write(item(n, email=5 if n in (7, 60) else "a@example.org") for n in range(100))
    assert numbers(each.item for each in failed.value.failed) == [7, 60]
    assert all(isinstance(each.error, ValidationException) for each in failed.value.failed)
    assert failed.value.done == 98
    assert len(list(expenses.scan())) == 98


def test_a_hopeless_error_ends_the_batch_at_once(db):
    def deny(request, go):
        raise AccessDeniedException("no")

    table, between = through(db, deny)
    given_items = []

    def endless():
        for n in range(10**9):
            given_items.append(n)
            yield item(n)

    with pytest.raises(BatchIncomplete, match="AccessDeniedException: no") as failed:
        table.batch_write(endless(), workers=1)
    assert len(between.requests) == 1
    assert len(failed.value.failed) in (len(given_items), len(given_items) - 1)  # the last one was not taken any more
    assert isinstance(failed.value.__cause__, AccessDeniedException)


def test_a_table_that_is_not_there_is_told_before_anything(db):
    with pytest.raises(ResourceNotFoundException):
        db.table("nothing").batch()


def test_an_error_that_nobody_expects_loses_nothing_either(db):
    def stumble(request, go):
        raise RuntimeError("a bug")

    table, _ = through(db, stumble)
    with pytest.raises(BatchIncomplete, match="RuntimeError: a bug") as failed:
        table.batch_write(item(n) for n in range(10))
    assert len(failed.value.failed) == 10


@pytest.mark.parametrize("workers", [1, 4])
def test_a_block_that_raises_sends_no_more_and_says_what_was_sent(expenses, workers):
    with pytest.raises(KeyError) as raised, expenses.batch(workers=workers) as batch:
        for n in range(60):
            batch.put(item(n))
        raise KeyError("oops")
    assert batch.done == 50
    assert numbers(each.item for each in batch.failed) == list(range(50, 60))
    assert numbers(expenses.scan()) == list(range(50))
    (note,) = raised.value.__notes__
    assert "50 actions had been done, 10 had not" in note


def test_a_bad_item_is_refused_where_it_is_given(expenses):
    with expenses.batch() as batch:
        batch.put(item(1))
        with pytest.raises(InvalidValue, match=r"^price: NaN"):
            batch.put(item(2, price=float("nan")))
        with pytest.raises(InvalidValue, match=r"^number: the key attribute is missing"):
            batch.put({"company": "c1"})
        batch.put(item(3))
    assert numbers(expenses.scan()) == [1, 3]


def test_flushing_in_between_makes_everything_so_far_durable(expenses):
    with expenses.batch() as batch:
        batch.put(item(1))
        assert expenses.get(key(1)) is None
        batch.flush()
        assert expenses.get(key(1)) == item(1)


def test_actions_on_one_key_keep_their_order_with_many_requests_in_flight(db):
    """Of two requests with the same key, the second is sent when the first has been answered."""
    flying, lock = set(), threading.Lock()
    overlaps = []

    def watch(request, go):
        (writes,) = request["RequestItems"].values()
        mine = {write["PutRequest"]["Item"]["number"]["N"] for write in writes}
        with lock:
            overlaps.append(flying & mine)
            flying.update(mine)
        answer = go(request)
        with lock:
            flying.difference_update(mine)
        return answer

    table, _ = through(db, watch)
    random = Random(1)
    expected = {}
    with table.batch(workers=6) as batch:
        for n in range(3_000):
            number = random.randrange(120)
            batch.put(item(number, n=n))
            expected[number] = n
    assert not any(overlaps)
    assert {each["number"]: each["n"] for each in table.scan()} == expected


def test_a_pace_is_asked_before_and_told_after(db, expenses):
    clock = ManualClock()
    pacer = Pacer(10, clock=clock, sleep=clock.advance)
    began = clock.now()
    expenses.batch_write((item(n, text="x" * 1500) for n in range(50)), pace=pacer, workers=1)
    # Two units an item, ten units a second, one second saved up.
    assert 8 <= clock.now() - began <= 10
    assert len(list(expenses.batch_get([key(n) for n in range(50)], pace=Pacer(), workers=2))) == 50


def test_options_are_checked():
    for wrong in ({"workers": 0}, {"duplicates": "first"}):
        with pytest.raises(ValueError, match=r"workers|duplicates"):
            BatchOptions(**wrong)


def test_waits_have_full_jitter_and_a_cap():
    longest = RefusalBackoff(Backoff(0.05, 2.0, 5.0), draw=lambda: 1.0)
    waits = [longest.wait_after(25, 25) for _ in range(9)]
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert longest.wait_after(1, 25) == 5.0  # from 12.8 down to 6.4, still above the cap
    assert longest.wait_after(0, 25) == 0.0
    assert longest.wait_after(1, 25) == 0.05
    assert RefusalBackoff(Backoff(0.05, 2.0, 5.0), draw=lambda: 0.0).wait_after(25, 25) == 0.0


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("workers", [1, 4])
def test_any_number_of_keys_is_read_in_their_order(expenses, workers):
    expenses.batch_write(item(n) for n in range(500))
    wanted = list(range(999, -1, -3))
    found = expenses.batch_get((key(n) for n in wanted), workers=workers)
    assert [each["number"] for each in found] == [n for n in wanted if n < 500]


def test_a_key_asked_for_twice_is_answered_twice(expenses):
    expenses.put(item(1))
    assert list(expenses.batch_get([key(1), key(2), key(1.0)])) == [item(1), item(1)]


def test_a_selection_shows_no_more_than_was_asked_for(expenses):
    expenses.put(item(1, a={"b": 1, "c": 2}, d=3))
    assert list(expenses.batch_get([key(1)], select=["d"], consistent=True)) == [{"d": 3}]
    found = expenses.batch_get([key(1)], select=[penstock.F("a", "b"), "number"])
    assert list(found) == [{"a": {"b": 1}, "number": 1}]


def test_more_than_one_answer_holds_is_read_on(expenses):
    expenses.batch_write(item(n, text="x" * 300_000) for n in range(60))
    found = expenses.batch_get([key(n) for n in range(60)], workers=1)
    assert [each["number"] for each in found] == list(range(60))


def test_keys_that_cannot_be_read_are_raised_at_the_end(db, expenses):
    expenses.batch_write(item(n) for n in range(250))

    def never_seven(request, go):
        ((name, asked),) = request["RequestItems"].items()
        sevens = [each for each in asked["Keys"] if int(each["number"]["N"]) % 7 == 0]
        others = [each for each in asked["Keys"] if each not in sevens]
        answer = go({"RequestItems": {name: {**asked, "Keys": others}}}) if others else {"Responses": {}}
        return {**answer, "UnprocessedKeys": {name: {**asked, "Keys": sevens}} if sevens else {}}

    table, _ = through(db, never_seven)
    found = []
    with pytest.raises(BatchIncomplete) as failed:
        for each in table.batch_get((key(n) for n in range(250)), options=quick(deadline_seconds=20, workers=2)):
            found.append(each["number"])
    assert found == [n for n in range(250) if n % 7]
    assert numbers(each.item for each in failed.value.failed) == list(range(0, 250, 7))
    assert failed.value.done == 250 - 36
    assert failed.value.failed[0].action == "get"


# ── through faults ───────────────────────────────────────────────────────────────────────────────

FAULTS = Rates(throttle=0.1, unprocessed=0.1, internal_error_after=0.04, timeout_after=0.03, reset_before=0.03)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    actions=st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=300),
    workers=st.sampled_from([1, 3]),
)
def test_through_thirty_percent_of_faults_the_table_ends_as_a_dictionary_would(seed, actions, workers):
    with penstock.connect() as db:
        db.execute(
            "CreateTable",
            {
                "TableName": "expenses",
                "KeySchema": [{"AttributeName": "number", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "number", "AttributeType": "N"}],
                "BillingMode": "PAY_PER_REQUEST",
            },
        )
        faulty = penstock.Database(Faults(db.transport, FAULTS, seed=seed)).table("expenses", key="number:N")
        expected = {}
        with faulty.batch(options=quick(workers=workers, deadline_seconds=10**6)) as batch:
            for place, (number, is_put) in enumerate(actions):
                if is_put:
                    batch.put({"number": number, "place": place})
                    expected[number] = place
                else:
                    batch.delete({"number": number})
                    expected.pop(number, None)
        assert {each["number"]: each["place"] for each in db.table("expenses").scan()} == expected
        assert batch.report.done + batch.report.replaced == len(actions)
        options = quick(workers=workers, deadline_seconds=10**6)
        read = faulty.batch_get([{"number": n} for n in range(61)], options=options)
        assert {each["number"]: each["place"] for each in read} == expected
