"""The new table brought to what the old one says, for some old keys at a time.

1. What is written was read from the old table itself, consistently, and no change that the stream tells of is settled
   between that reading and the writing. So an old value never overwrites a newer one, and a deleted item never comes
   back: nobody needs to compare times.
2. After the copying, an item of the new table is replaced or deleted only on behalf of the old item it came from.
3. Settling the same keys again changes nothing: whatever was interrupted is simply done once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from penstock.errors import DynamoDBError, PenstockError
from penstock.tables.data.transfers import ItemTable, KeyText
from penstock.tables.rekey.checksums import Changed
from penstock.tables.rekey.item_mapping import KeyMapping, Problem
from penstock.tables.rekey.stream import ChangeRecord
from penstock.wire.values import Item, equal

MOST_PROBLEMS = 1_000
"""After so many, the mapping is wrong, not the items: the job stops."""


class TooManyProblems(PenstockError):
    """The mapping does not fit the items; `problems` has them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(problems)
        self.next_steps = ("penstock tables rekey", "penstock tables rekey rollback")
        """To continue, and to begin again."""
        super().__init__(self.problems)

    def __str__(self) -> str:
        shown = "\n".join(f"  {one}" for one in self.problems[:10])
        again, back = self.next_steps
        return (
            f"More than {MOST_PROBLEMS:,} items cannot be moved; the first ones:\n{shown}\n"
            f"Run it again with another --map (`{again} --map MAP`), "
            f"or roll back (`{back}`) and begin with another --key."
        )


@dataclass(slots=True)
class Wanted:
    """An old key: its item as mapped now (None: no such item, or none that can be mapped), and new keys it once had."""

    item: Item | None
    stale: dict[KeyText, Item] = field(default_factory=dict)


class CatchUpWriter:
    """Writes to the new table; for one thread, which is the only one that does."""

    def __init__(self, old: ItemTable, new: ItemTable, mapping: KeyMapping, check: Callable[[], object]) -> None:
        self.old = old
        self.new = new
        self.mapping = mapping
        self.problems: dict[KeyText, Problem] = {}
        self._check = check

    def map(self, item: Item) -> Item | None:
        """The mapped item; one that cannot be mapped is noted."""
        mapped = self.mapping(item)
        at = self.old.text_of(item)
        if isinstance(mapped, Problem):
            self.note(at, mapped)
            return None
        if self.problems:
            self.problems.pop(at, None)
        return mapped

    def note(self, at: KeyText, problem: Problem) -> None:
        self.problems[at] = problem
        if len(self.problems) > MOST_PROBLEMS:
            raise TooManyProblems(self.problems.values())

    def copy(self, items: Iterable[Item]) -> int:
        """Writes items that were just read from the old table; how many there were.

        Nobody looks what is there. Two old items with one new key are found here if they come together, and by the
        comparison that follows if they do not.
        """
        puts: dict[KeyText, Item] = {}
        count = 0
        for item in items:
            count += 1
            mapped = self.map(item)
            if mapped is not None:
                self._place(self.old.text_of(item), mapped, {}, set(), puts)
        self._check()
        # A file that keeps a partition's items together is written faster so; DynamoDB's partition would become hot.
        places = sorted(puts) if self.new.shares_commits else puts
        self.new.write((puts[place] for place in places), refuse=self._note_refusal)
        return count

    def follow(self, touched: Iterable[ChangeRecord], changed: Changed | None = None) -> int:
        """Settles the keys that the stream names, each as it is now; their number. `changed` is told of the images."""
        stale: dict[KeyText, dict[KeyText, Item]] = {}
        keys: dict[KeyText, Item] = {}
        for one in touched:
            at = self.old.text_of(one.key)
            keys[at] = one.key
            for image in (one.old, one.new):
                mapped = None if image is None else self.mapping(image)
                if mapped is not None and not isinstance(mapped, Problem):
                    place = self.new.text_of(mapped)
                    stale.setdefault(at, {})[place] = self.new.key_of(mapped)
                    if changed is not None:
                        changed.add_image(at, mapped)
        if changed is not None:
            changed.add(keys, stale)
        return self.refresh(keys, stale)

    def refresh(self, keys: dict[KeyText, Item], stale: dict[KeyText, dict[KeyText, Item]]) -> int:
        """Reads the old keys and settles them; `stale` are places in the new table where they may have been."""
        if not keys:
            return 0
        now = self.old.get(list(keys.values()))
        wanted = {}
        for at in keys:
            item = now.get(at)
            if item is None:
                self.problems.pop(at, None)
            wanted[at] = Wanted(None if item is None else self.map(item), stale.get(at, {}))
        self.write_wanted(wanted)
        return len(keys)

    def write_wanted(self, wanted: dict[KeyText, Wanted]) -> int:
        """One write of the new table; the number of items put."""
        asked: dict[KeyText, Item] = {}
        for want in wanted.values():
            asked |= want.stale
            if want.item is not None:
                asked[self.new.text_of(want.item)] = self.new.key_of(want.item)
        there = self.new.get(list(asked.values()), only=self.old.keys)
        origin = {at: self.origin(item) for at, item in there.items()}
        leaving = {place for at, want in wanted.items() for place in want.stale if origin.get(place) == at}
        puts: dict[KeyText, Item] = {}
        for at, want in wanted.items():
            if want.item is not None:
                self._place(at, want.item, origin, leaving, puts)
        self._check()
        self.new.write(puts.values(), [asked[place] for place in leaving - puts.keys()], refuse=self._note_refusal)
        return len(puts)

    def _place(
        self, at: KeyText, item: Item, origin: dict[KeyText, KeyText], leaving: set[KeyText], puts: dict[KeyText, Item]
    ) -> None:
        place = self.new.text_of(item)
        rival = self.old.text_of(puts[place]) if place in puts else origin.get(place)
        if rival is None or rival == at or (place in leaving and place not in puts):
            puts[place] = item
            return
        shown = ", ".join(rival) or "an item that somebody else wrote"
        self.note(at, Problem(self.old.key_of(item), f"its new key {', '.join(place)} is also that of {shown}"))

    def _note_refusal(self, item: Item, error: DynamoDBError) -> None:
        """The new table does not take it: an index's key of another type, or an item that has grown too large."""
        self.note(self.old.text_of(item), Problem(self.old.key_of(item), f"the new table refuses it: {error.message}"))

    def origin(self, item: Item) -> KeyText:
        """The old key that an item of the new table came from; () where somebody else wrote it."""
        try:
            return self.old.text_of(item)
        except KeyError:
            return ()

    # ── comparing ────────────────────────────────────────────────────────────────────────────────

    def missing_or_different(self, items: Iterable[Item]) -> dict[KeyText, Item]:
        """Old keys whose item, as it was read, is not what the new table has."""
        mapped = {self.old.text_of(item): self.map(item) for item in items}
        there = self.new.get([self.new.key_of(one) for one in mapped.values() if one is not None])
        return {
            at: self.old.key_of(one)
            for at, one in mapped.items()
            if one is not None and not _same(there.get(self.new.text_of(one)), one)
        }

    def strangers(self, items: Iterable[Item]) -> dict[KeyText, tuple[Item, Item]]:
        """Of items of the new table, those that no old item maps to: new key → (old key, new key)."""
        read = {self.new.text_of(item): item for item in items}
        foreign = next((place for place, item in read.items() if not self.origin(item)), None)
        if foreign is not None:
            raise PenstockError(
                f"{self.new.name} has an item that did not come from {self.old.name}: {', '.join(foreign)}. "
                "Nothing else may write to it before `rekey confirm`."
            )
        now = self.old.get([self.old.key_of(item) for item in read.values()])
        found: dict[KeyText, tuple[Item, Item]] = {}
        for place, item in read.items():
            source = now.get(self.old.text_of(item))
            mapped = None if source is None else self.map(source)
            if mapped is None or self.new.text_of(mapped) != place:
                found[place] = (self.old.key_of(item), self.new.key_of(item))
        return found


def _same(one: Item | None, other: Item) -> bool:
    if one is None:
        return False
    return one == other or (one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one))
