"""A rekey's comparison by sums: whatever is wrong in the new table is found, and changes meanwhile leave no doubt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moving_samples import Wire
from rekey_world import Writer, check_new_table, comment, filled_world, rekeyed

from penstock.client.database import Database
from penstock.errors import PenstockError
from penstock.tables.rekey.checksums import BUCKETS, Changed, Doubts, Sums, bucket_of, explains
from penstock.tables.rekey.phases import Rekey

KEYS = st.tuples(st.text(max_size=5), st.text(max_size=3))


def put(db: Database, item: Wire) -> None:
    db.execute("PutItem", {"TableName": "new", "Item": item})


def new_key(item: Wire) -> Wire:
    return {name: item[name] for name in ("job_id", "comment_id")}


# ── the law ──────────────────────────────────────────────────────────────────────────────────────


@given(st.dictionaries(KEYS, st.integers(0, 3)), st.dictionaries(KEYS, st.integers(0, 3)))
def test_buckets_without_a_doubt_have_the_same_items(old: dict[tuple[str, str], int], new: dict[tuple[str, str], int]):
    sums = Sums()
    for key, value in old.items():
        sums.add(key, {"k": {"S": "/".join(key)}, "v": {"N": str(value)}})
    for key, value in new.items():
        sums.subtract(key, {"v": {"N": str(value)}, "k": {"S": "/".join(key)}})
    doubts = sums.doubts(Changed())
    differing = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    assert doubts.buckets == {bucket_of(key) for key in differing}


@given(st.frozensets(st.integers(0, BUCKETS - 1), max_size=20))
def test_doubts_are_the_same_after_they_were_kept(buckets: frozenset[int]) -> None:
    assert Doubts.parse(Doubts(buckets).text()).buckets == buckets


def test_a_job_without_sums_is_in_doubt_about_everything() -> None:
    assert ("c1", "7") in Doubts.parse(None)


@pytest.mark.parametrize(
    ("changed", "left", "explained"),
    [
        ([{0, 5, 9}], 4, True),  # read as 9 in the old table, as 5 in the new one
        ([{0, 5, 9}], -9, True),  # gone from the old table, still in the new one
        ([{0, 5, 9}], 3, False),
        ([{0, 5}, {0, 70}], 65, True),
        ([{0, 5}, {0, 70}], 66, False),
        ([set(range(100)), set(range(100))], 1, False),  # too many choices: looked up instead
        ([], 1, False),
    ],
)
def test_a_sum_is_explained_by_what_changed_items_were(changed: list[set[int]], left: int, explained: bool) -> None:
    assert explains(changed, left) is explained


# ── in a rekey ───────────────────────────────────────────────────────────────────────────────────


def test_what_somebody_spoiled_in_the_new_table_is_found_and_repaired() -> None:
    with filled_world(count=500) as db:
        rekeyed(db)
        db.execute("DeleteItem", {"TableName": "new", "Key": new_key(comment(1))})
        put(db, comment(2) | {"text": {"S": "spoiled"}})
        put(db, comment(3) | {"job_id": {"S": "twice"}})
        put(db, comment(9_000))
        job = rekeyed(db)
        assert (job.phase, job.repaired, job.looked_up < 50) == ("ready", 4, True)
        check_new_table(db, {number: comment(number) for number in range(500)})


def test_an_item_that_came_from_nowhere_is_named() -> None:
    with filled_world(count=50) as db:
        rekeyed(db)
        put(db, {"job_id": {"S": "alien"}, "comment_id": {"N": "1"}})
        with pytest.raises(PenstockError, match="did not come from old: alien, 1"):
            rekeyed(db)


def test_beside_a_writer_only_what_it_changed_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the changes lands between the readings of the two tables."""
    with filled_world(count=3_000) as db:
        writer = Writer(db, 3_000, moves=True)
        real, swept = Rekey._follow, []

        def follow(self: Rekey, *words: object, **more: object) -> bool:
            if "changed" in more and len(swept) < 12:
                swept.append(1)
                for _ in range(5):
                    writer._write()
            return real(self, *words, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(Rekey, "_follow", follow)
        job = rekeyed(db)
        assert (job.phase, job.repaired) == ("ready", 0)
        assert 0 < job.looked_up < 300
        check_new_table(db, writer.known)
