"""Processors whose clocks differ, on the same records, in every order: claims, renewals, ends, freezes and expiries.

A model says what each call should do. The invariants are those of leases.py (1-5), record_state.py (1-4)
and records/store.py (1-4).
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from record_worlds import NAME, filled, key

from penstock.client.database import connect
from penstock.client.items.values import encode
from penstock.clock import ManualClock
from penstock.leases import allowance_seconds
from penstock.records.record_state import Changed, Claim, Gone, Held, Later, Lost, NotPending, Poison, Settled, Written
from penstock.records.source import Candidate, Source, Work
from penstock.records.store import RecordStore

LEASE = 10.0
RECORDS = 3
MAX_CRASHES = 4
SKEWS = (0.0, allowance_seconds(LEASE) / 2 - 0.01, -allowance_seconds(LEASE) / 2 + 0.01)
WHICH = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5])


class Skewed:
    """A processor's own clock: no two differ by more than the allowance."""

    def __init__(self, true: ManualClock, skew: float) -> None:
        self._true = true
        self._skew = skew

    def now(self) -> float:
        return self._true.now() + self._skew


@dataclass
class Modelled:
    """What a record should be."""

    grant: Holder | None = None
    """The newest one, until it is ended."""
    state: str = "pending"
    changes: int = 0
    last_token: int = 0
    crashes: int = 0


@dataclass(eq=False)
class Holder:
    """A claim as its holder remembers it."""

    store: int
    number: int
    claim: Claim
    changes: int


class Interleavings(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.clock = ManualClock()
        self.db = connect(":memory:")
        self.table = filled(self.db, RECORDS)
        source = Source(self.db, Work(NAME, "Processed", [0], set={"Processed": 1}))
        self.stores = [
            RecordStore(
                source, lease_seconds=LEASE, max_crashes=MAX_CRASHES, owner=f"p{n}", clock=Skewed(self.clock, skew)
            )
            for n, skew in enumerate(SKEWS)
        ]
        self.model = {number: Modelled() for number in range(RECORDS)}
        self.held: list[Holder] = []
        self.grants: set[tuple[str, int]] = set()

    def teardown(self) -> None:
        if hasattr(self, "db"):
            self._nothing_is_lost()
            self.db.close()

    # ── claims ───────────────────────────────────────────────────────────────────────────────────

    @rule(store=st.integers(0, 2), number=st.integers(0, RECORDS - 1))
    def claim(self, store: int, number: int) -> None:
        model, now = self.model[number], self.stores[store].clock.now()
        answer = self.stores[store].claim(found(number))
        match answer:
            case Claim(state=state):
                assert model.state == "pending"
                self._nobody_else_believes(number)
                assert (state.owner, state.token) not in self.grants
                self.grants.add((state.owner, state.token))
                assert state.token > model.last_token
                model.crashes += model.grant is not None
                assert state.crashes == model.crashes
                model.last_token = state.token
                assert answer.item["Number"] == number + 100 * model.changes
                model.grant = Holder(store, number, answer, model.changes)
                self.held.append(model.grant)
            case Held(_, takeable_at):
                assert model.grant is not None
                assert now < takeable_at
            case Later(due_at):
                assert model.state == "pending"
                assert now < due_at
            case Poison(state):
                assert model.grant is not None
                self._nobody_else_believes(number)
                assert model.crashes + 1 >= MAX_CRASHES
                assert self.stores[store].fail_poison(found(number), state) is not None
                model.state, model.grant = "parked", None
            case Settled(failed=True):
                assert model.state == "parked"
            case NotPending():
                assert model.state == "done"
            case _:
                raise AssertionError(answer)

    def _nobody_else_believes(self, number: int) -> None:
        """No holder takes itself for one by its own clock (leases.py, 1, 3 and 4)."""
        grant = self.model[number].grant
        if grant is not None:
            assert self.stores[grant.store].clock.now() >= grant.claim.state.until

    # ── under a claim: also by holders that were frozen, and have lost it long ago ───────────────

    def _holder(self, which: int) -> Holder:
        return self.held[-1 - which % len(self.held)]

    def _is_current(self, held: Holder) -> bool:
        return self.model[held.number].grant is held

    @precondition(lambda self: self.held)
    @rule(which=WHICH)
    def renew(self, which: int) -> None:
        held = self._holder(which)
        answer = self.stores[held.store].renew(held.claim)
        assert isinstance(answer, Written) == self._is_current(held)

    @precondition(lambda self: self.held)
    @rule(which=WHICH)
    def mark(self, which: int) -> None:
        held = self._holder(which)
        model, current = self.model[held.number], self._is_current(held)
        answer = self.stores[held.store].mark(held.claim, {"By": held.store})
        if not current:
            assert isinstance(answer, Lost)
        elif held.changes != model.changes:
            assert answer == Changed(("Number",))
        else:
            assert isinstance(answer, Written)
            model.state, model.grant, model.crashes = "done", None, 0
            model.last_token = 0  # the attribute is gone

    @precondition(lambda self: self.held)
    @rule(which=WHICH, how=st.sampled_from(["failed", "parked", "given back"]))
    def end_otherwise(self, which: int, how: str) -> None:
        held = self._holder(which)
        model, current = self.model[held.number], self._is_current(held)
        store, state = self.stores[held.store], held.claim.state
        now = store.clock.now()
        wanted = {
            "failed": lambda: state.after_failure("E", "m", now, now + 3),
            "parked": lambda: state.fail_for_good("E", "m", now),
            "given back": state.give_back,
        }[how]()
        answer = store.put_state(held.claim, wanted)
        assert isinstance(answer, Written) == current
        if current:
            model.state, model.grant = "parked" if how == "parked" else "pending", None

    # ── time, and others ─────────────────────────────────────────────────────────────────────────

    @rule(seconds=st.sampled_from([0.5, 2.0, 4.0, LEASE / 2, LEASE, LEASE * 1.05, LEASE * 1.2]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(number=st.integers(0, RECORDS - 1))
    def somebody_changes(self, number: int) -> None:
        model = self.model[number]
        model.changes += 1
        self.table.update(key(number), set={"Number": number + 100 * model.changes})

    @rule(number=st.integers(0, RECORDS - 1))
    def somebody_makes_it_pending_again(self, number: int) -> None:
        if self.model[number].state == "done":
            self.table.update(key(number), set={"Processed": 0})
            self.model[number].state = "pending"

    @rule(number=st.integers(0, RECORDS - 1), store=st.integers(0, 2))
    def redrive(self, number: int, store: int) -> None:
        model = self.model[number]
        if model.state == "parked":
            from penstock.records.failed_records import Failures

            (parked,) = [one for one in Failures(self.stores[store]) if one.key == found(number).key]
            assert self.stores[store].replace_state(parked.key, parked.seen, parked.state.redrive())
            model.state, model.crashes = "pending", 0

    def _nothing_is_lost(self) -> None:
        """However it went, every record is done or parked, or can still be claimed and done."""
        self.clock.advance(1_000)
        for number, model in self.model.items():
            answer = self.stores[0].claim(found(number))
            if model.state == "pending":
                assert isinstance(answer, Claim | Poison)
                if isinstance(answer, Claim):
                    assert isinstance(self.stores[0].mark(answer, None), Written)
            else:
                assert isinstance(answer, Settled if model.state == "parked" else NotPending)
            assert not isinstance(answer, Gone)


def found(number: int) -> Candidate:
    return Candidate({name: encode(value) for name, value in key(number).items()}, None, {"N": "0"})


Interleavings.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestInterleavings = Interleavings.TestCase
