"""Parts of keys from other names, and versions in names: the tree of seed 002."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.files import BadKey
from penstock.files.keys import add_version, is_key, join_key, next_version, normalize_name, version_of


def test_the_seeds_own_key() -> None:
    parts = ("7central", normalize_name("St. Mary's Hospital"), normalize_name("Emergency Wing"), "job_1734567890")
    assert join_key(*parts, add_version("schedule.xlsx", 1)) == (
        "7central/st_marys_hospital/emergency_wing/job_1734567890/schedule_v1.xlsx"
    )


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("Main Building", "main_building"),
        ("  a--b__c  ", "a_b_c"),
        ("O’Neill & Söhne", "oneill_söhne"),
        ("../../etc", "etc"),
        ("病院 1", "病院_1"),
        ("STRASSE ß", "strasse_ss"),
    ],
)
def test_a_name_becomes_one_part(name: str, normal: str) -> None:
    assert normalize_name(name) == normal


@given(st.text(max_size=50))
def test_normalizing_twice_changes_nothing(name: str) -> None:
    try:
        once = normalize_name(name)
    except BadKey:
        return
    assert normalize_name(once) == once
    assert "/" not in once and "." not in once


def test_a_name_of_nothing_is_refused() -> None:
    with pytest.raises(BadKey, match="no letter and no digit"):
        normalize_name("--")


@pytest.mark.parametrize("part", ["a/b", "..", "", "../x"])
def test_a_part_that_is_more_than_one_is_refused(part: str) -> None:
    with pytest.raises(BadKey):
        join_key("company", part, "x.pdf")


@pytest.mark.parametrize("name", ["schedule.xlsx", "noending", "a.tar.gz", ".hidden", "x_v", "a_vb.txt"])
def test_a_version_is_put_in_and_found_again(name: str) -> None:
    assert version_of(name) == (name, None)
    assert version_of(add_version(name, 12)) == (name, 12)
    assert is_key(add_version(name, 12))


def test_versions_count_up_from_the_highest_taken() -> None:
    taken = ["j/schedule_v1.xlsx", "j/schedule_v3.xlsx", "j/schedule.xlsx", "j/other_v9.xlsx", "j/schedule_v07.xlsx"]
    assert next_version("schedule.xlsx", taken) == 4
    assert next_version("new.xlsx", taken) == 1
    with pytest.raises(ValueError, match="count from 1"):
        add_version("x", 0)
