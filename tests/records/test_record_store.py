"""The writes of a processor, on every kind of database: store.py (1-5), record_state.py (1-4)."""

from __future__ import annotations

from typing import Any

import pytest
from record_worlds import NAME, filled, key

from penstock.client.database import Database
from penstock.client.items.expressions import F
from penstock.client.items.values import encode
from penstock.clock import ManualClock
from penstock.errors import ConditionalCheckFailedException
from penstock.leases import allowance_seconds
from penstock.records.record_state import (
    BOOKKEEPING,
    Changed,
    Claim,
    Gone,
    Held,
    Lost,
    NotPending,
    Poison,
    Settled,
    Written,
)
from penstock.records.source import Candidate, Source, Work
from penstock.records.store import BookkeepingTaken, RecordStore

LEASE = 10.0
DONE = {"Processed": 1}
FOUND = Candidate({name: encode(value) for name, value in key(0).items()}, None, {"N": "0"})
UNMARKED = Candidate(FOUND.key)


class World:
    """One record, and two who want it."""

    def __init__(self, db: Database, work: Work | None = None, **options: Any) -> None:
        self.db = db
        self.table = filled(db, 1)
        self.clock = ManualClock()
        source = Source(db, work or Work(NAME, "Processed", [0], set=DONE))
        stores = [RecordStore(source, lease_seconds=LEASE, owner=o, clock=self.clock, **options) for o in "ab"]
        self.a, self.b = stores

    def item(self) -> dict[str, Any]:
        found = self.table.get(key(0), consistent=True)
        assert found is not None
        return found

    def expire(self) -> None:
        self.clock.advance(LEASE + allowance_seconds(LEASE))


def claimed(answer: object) -> Claim:
    assert isinstance(answer, Claim), answer
    return answer


def test_a_record_is_claimed_run_and_marked(any_db: Database) -> None:
    world = World(any_db)
    claim = claimed(world.a.claim(FOUND))
    assert claim.item == {**key(0), "Processed": 0, "Number": 0}
    assert isinstance(world.b.claim(FOUND), Held)
    assert isinstance(world.a.mark(claim, {"Double": 0}), Written)
    assert world.item() == {**key(0), "Processed": 1, "Number": 0, "Double": 0}
    assert isinstance(world.b.claim(FOUND), NotPending)


def test_an_expired_lease_is_taken_and_its_old_holder_is_refused(any_db: Database) -> None:
    world = World(any_db)
    old = claimed(world.a.claim(FOUND))
    world.expire()
    new = claimed(world.b.claim(FOUND))
    assert new.state.token > old.state.token
    assert (new.state.attempts, new.state.crashes) == (2, 1)
    assert world.a.mark(old, None) == Lost("b")
    assert world.a.renew(old) == Lost("b")
    assert world.a.put_state(old, old.state.give_back()) == Lost("b")
    assert isinstance(world.b.mark(new, None), Written)
    assert world.a.mark(old, None) == Lost("")


def test_a_renewed_lease_is_not_taken(any_db: Database) -> None:
    world = World(any_db)
    claim = claimed(world.a.claim(FOUND))
    world.clock.advance(LEASE)
    assert isinstance(world.a.renew(claim), Written)
    world.clock.advance(LEASE - 1)
    assert isinstance(world.b.claim(FOUND), Held)
    assert isinstance(world.a.mark(claim, None), Written)


def test_a_renewal_that_the_marker_has_not_heard_of_takes_nothing_from_it(any_db: Database) -> None:
    world = World(any_db)
    claim = claimed(world.a.claim(FOUND))
    before, wire = claim.state, claim.wire
    world.clock.advance(1)
    assert isinstance(world.a.renew(claim), Written)
    claim.state, claim.wire = before, wire
    assert isinstance(world.a.mark(claim, None), Written)


def test_a_renewal_between_a_request_and_its_answer_is_no_change_by_somebody(any_db: Database) -> None:
    world = World(any_db)
    claim = claimed(world.a.claim(FOUND))
    steps = world.a.mark_steps(claim, None)
    request = next(steps)
    world.clock.advance(1)
    assert isinstance(world.a.renew(claim), Written)  # by the watcher, and the claim says so
    with pytest.raises(ConditionalCheckFailedException) as refused:
        any_db.execute(*request)
    any_db.execute(*steps.throw(refused.value))
    with pytest.raises(StopIteration) as end:
        steps.send({})
    assert isinstance(end.value.value, Written)
    assert world.item() == {**key(0), "Processed": 1, "Number": 0}


def test_a_renewal_before_a_failure_is_written_takes_nothing_from_it(
    any_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(any_db)
    claim = claimed(world.a.claim(FOUND))
    execute, renewed = world.a._execute, False

    def renew_first(*call: Any) -> Any:
        nonlocal renewed
        if not renewed:
            renewed = True
            world.clock.advance(1)
            assert isinstance(world.a.renew(claim), Written)
        return execute(*call)

    monkeypatch.setattr(world.a, "_execute", renew_first)
    failed = claim.state.after_failure("E", "m", world.clock.now(), world.clock.now() + 3)
    assert isinstance(world.a.put_state(claim, failed), Written)


def test_a_record_that_is_changed_while_it_runs_is_not_marked(any_db: Database) -> None:
    world = World(any_db)
    claim = claimed(world.a.claim(FOUND))
    world.table.update(key(0), set={"Number": 99})
    assert world.a.mark(claim, {"Double": 0}) == Changed(("Number",))
    assert world.item()["Number"] == 99
    assert world.item()["Processed"] == 0


def test_only_the_chosen_attributes_are_compared(any_db: Database) -> None:
    world = World(any_db, unchanged=["Version"])
    claim = claimed(world.a.claim(FOUND))
    world.table.update(key(0), set={"Number": 99})
    world.table.update(key(0), set={"Version": 2})  # it had none
    assert world.a.mark(claim, None) == Changed(("Version",))
    claim = claimed(world.b.claim(FOUND)) if world.expire() is None else claim
    world.table.update(key(0), set={"Number": 100})
    assert isinstance(world.b.mark(claim, None), Written)
    assert world.item()["Number"] == 100


def test_a_deleted_record_stays_deleted(any_db: Database) -> None:
    world = World(any_db)
    claim = claimed(world.a.claim(FOUND))
    world.table.delete(key(0))
    assert world.a.mark(claim, {"Double": 0}) == Gone()
    assert world.a.renew(claim) == Gone()
    assert world.a.put_state(claim, claim.state.give_back()) == Gone()
    assert world.b.claim(FOUND) == Gone()
    assert list(world.table.scan()) == []


def test_a_parked_record_is_claimed_by_nobody_until_it_is_redriven(any_db: Database) -> None:
    world = World(any_db)
    claim = claimed(world.a.claim(FOUND))
    parked = claim.state.fail_for_good("ValueError", "no", world.clock.now())
    assert isinstance(world.a.put_state(claim, parked), Written)
    world.clock.advance(1e6)
    assert world.b.claim(FOUND) == Settled(failed=True)
    assert world.a.replace_state(FOUND.key, parked.wire(), parked.redrive())
    assert not world.b.replace_state(FOUND.key, parked.wire(), parked.redrive())
    assert claimed(world.b.claim(FOUND)).state.attempts == 1


def test_a_record_whose_workers_die_is_poison(any_db: Database) -> None:
    world = World(any_db, max_crashes=2)
    claimed(world.a.claim(FOUND))
    world.expire()
    claimed(world.b.claim(FOUND))
    world.expire()
    answer = world.a.claim(FOUND)
    assert isinstance(answer, Poison)
    parked = world.a.fail_poison(FOUND, answer.state)
    assert parked is not None
    assert (parked.crashes, parked.kind) == (2, "WorkerDied")
    assert world.b.fail_poison(FOUND, answer.state) is None
    assert world.b.claim(FOUND) == Settled(failed=True)


def test_without_marks_the_bookkeeping_says_what_is_done(any_db: Database) -> None:
    world = World(any_db, Work(NAME))
    claim = claimed(world.a.claim(UNMARKED))
    assert isinstance(world.a.mark(claim, None), Written)
    assert world.b.claim(UNMARKED) == Settled(failed=False)
    assert world.item()[BOOKKEEPING].startswith("done ")


def test_what_is_wanted_is_decided_at_the_claim(any_db: Database) -> None:
    work = Work(NAME, where=F("Number") < 5, set={"State": "done"}, remove=["Processed"])
    world = World(any_db, work)
    world.table.update(key(0), set={"Number": 7})
    assert world.a.claim(UNMARKED) == NotPending()
    world.table.update(key(0), set={"Number": 3})
    claim = claimed(world.a.claim(UNMARKED))
    assert isinstance(world.a.mark(claim, None), Written)
    assert world.item() == {**key(0), "Number": 3, "State": "done"}
    assert world.b.claim(UNMARKED) == NotPending()


def test_a_mark_may_be_computed_from_the_record(any_db: Database) -> None:
    work = Work(NAME, "Processed", [0], set={"Shard": lambda record: f"1#{record['Number']:02}"}, remove=["Processed"])
    world = World(any_db, work)
    assert isinstance(world.a.mark(claimed(world.a.claim(FOUND)), None), Written)
    assert world.item() == {**key(0), "Number": 0, "Shard": "1#00"}


def test_somebody_elses_attribute_is_left_alone(any_db: Database) -> None:
    world = World(any_db)
    world.table.update(key(0), set={BOOKKEEPING: "mine"})
    with pytest.raises(BookkeepingTaken, match=r"AccountId=a0 RunTime=00000: .*_penstock.*bookkeeping="):
        world.a.claim(FOUND)


@pytest.mark.parametrize("calls", [1, 2], ids=["the claim", "the mark"])
def test_a_write_whose_answer_was_lost_is_recognised(db: Database, calls: int) -> None:
    world = World(db)
    store, execute, seen = world.a, db.execute, []

    def repeating(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to the first try is lost, and the call repeated, as the client does it."""
        seen.append(operation)
        answer = execute(operation, request)
        if len(seen) != calls:
            return answer
        try:
            return execute(operation, request)
        except ConditionalCheckFailedException as error:
            error.maybe_ours = True
            raise

    store._execute = repeating  # type: ignore[method-assign]
    assert isinstance(store.mark(claimed(store.claim(FOUND)), {"Double": 0}), Written)
    assert world.item()["Processed"] == 1
