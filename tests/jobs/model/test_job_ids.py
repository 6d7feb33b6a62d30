"""Job ids: readable, sorted by age, and never the same twice."""

from __future__ import annotations

import re

from penstock.jobs.model.job import new_id


def test_ids_of_one_millisecond_are_in_the_order_they_were_made() -> None:
    ids = [new_id(1_794_783_015.633) for _ in range(20_000)]
    assert ids == sorted(set(ids))
    assert all(re.fullmatch(r"job_[0-9a-z]{8}_[0-9a-z]{6}", one) for one in ids)


def test_ids_of_later_milliseconds_come_later() -> None:
    ids = [new_id(1_794_783_015 + number / 1000) for number in range(1_000)]
    assert ids == sorted(ids)
