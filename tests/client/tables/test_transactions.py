"""Transactions: all or nothing, once."""

from __future__ import annotations

import pickle

import pytest

import penstock
from penstock import F
from penstock.client.items.failures import TransactionFailed
from penstock.client.wrappers.faults import Faults, Rates
from penstock.client.wrappers.retries import RequestRetries, Retrying
from penstock.errors import TransactionCanceledException


def key(number):
    return {"company": "c1", "number": number}


def test_all_actions_happen_together(db, expenses):
    expenses.put({**key(1), "n": 1})
    expenses.put(key(2))
    with db.transaction() as tx:
        tx.update(expenses, key(1), set={"n": F("n") + 1}, if_=F("n") == 1)
        tx.delete(expenses, key(2))
        tx.put(expenses, key(3), if_=F("company").missing())
        tx.check(expenses, key(4), if_=F("company").missing())
        assert len(tx) == 4
        assert expenses.get(key(3)) is None
    found = db.transact_get([expenses.get_action(key(n)) for n in (1, 2, 3)])
    assert found == [{**key(1), "n": 2}, None, key(3)]


def test_one_reason_stops_all_of_it(db, expenses):
    expenses.put({**key(1), "n": 1})
    with pytest.raises(TransactionFailed) as failed, db.transaction() as tx:
        tx.put(expenses, key(2))
        tx.put(expenses, key(1), if_=F("company").missing())
    (reason,) = failed.value.reasons
    assert (reason.index, reason.action, reason.code) == (1, "Put expenses", "ConditionalCheckFailed")
    assert reason.item == {**key(1), "n": 1}
    assert str(failed.value) == "action 1 (Put expenses): ConditionalCheckFailed"
    assert failed.value.code == "TransactionCanceledException"
    assert isinstance(failed.value, TransactionCanceledException)
    assert pickle.loads(pickle.dumps(failed.value)).reasons == failed.value.reasons
    assert expenses.get(key(2)) is None


def test_a_block_that_raises_sends_nothing(db, expenses):
    with pytest.raises(KeyError), db.transaction() as tx:
        tx.put(expenses, key(1))
        raise KeyError
    assert expenses.get(key(1)) is None


def test_an_empty_transaction_is_no_call(db):
    with db.transaction():
        pass


def test_actions_may_be_given_as_a_list(db, expenses):
    db.transact_write([expenses.put_action(key(1)), expenses.update_action(key(2), add={"n": 1})])
    assert db.transact_get([expenses.get_action(key(2), select=["n"])]) == [{"n": 1}]


def test_a_transaction_has_its_limits(db, expenses):
    with pytest.raises(ValueError, match="at most 100 actions, not 101"):
        db.transact_write([expenses.put_action(key(n)) for n in range(101)])
    with pytest.raises(ValueError, match="Get is no part of transact_write"):
        db.transact_write([expenses.get_action(key(1))])
    with pytest.raises(ValueError, match="Put is no part of transact_get"):
        db.transact_get([expenses.put_action(key(1))])
    with pytest.raises(ValueError, match="characters"):
        db.transact_write([expenses.put_action(key(1))], token="x" * 37)
    with pytest.raises(ValueError, match="needs a condition"):
        expenses.check_action(key(1), if_=None)


def test_the_same_token_is_the_same_transaction(db, expenses):
    for _ in range(3):
        db.transact_write([expenses.update_action(key(1), add={"n": 1})], token="once")
    assert expenses.get(key(1)) == {**key(1), "n": 1}


def test_repeats_of_one_transaction_have_one_effect(db, expenses):
    """Every second call is lost after its effect, and repeated."""
    faulty = Faults(db.transport, Rates(timeout_after=0.5), seed=3)
    retrying = penstock.Database(
        Retrying(faulty, RequestRetries(attempts=50), unlimited=True, sleep=lambda seconds: None)
    )
    table = retrying.table("expenses")
    for _ in range(40):
        with retrying.transaction() as tx:
            tx.update(table, key(1), add={"n": 1})
    assert faulty.counts["timeout_after"] > 10
    assert expenses.get(key(1)) == {**key(1), "n": 40}
