"""Tables at random: small alphabets, so that two of them have much in common."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from penstock.tables.definitions.definition import Attribute, Index, Key, Maximum, Table, Throughput

VIEWS = ("KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES")
ATTRIBUTES = ("a", "b", "c", "d#e", "été")

units = st.builds(Throughput, st.integers(1, 4), st.integers(1, 4))
warmth = st.builds(Throughput, st.sampled_from((13_000, 15_000, 20_000)), st.sampled_from((4_000, 5_000, 9_000)))
maximums = st.builds(Maximum, st.none() | st.integers(1, 3), st.none() | st.integers(1, 3))
tags = st.dictionaries(st.sampled_from(("Team", "Cost", "Environment")), st.sampled_from(("x", "y y", "")))


@st.composite
def tables(draw: DrawFn, *, name: str = "things", keys: tuple[str, ...] | None = None, local: bool = True) -> Table:
    """Any valid table; `keys` pins its primary key."""
    types = {one: draw(st.sampled_from("SNB")) for one in ATTRIBUTES}
    key = keys or draw(st.sampled_from((("id:S",), ("id:S", "sort:N"))))
    billing: Any = draw(st.just("on-demand") | units)
    on_demand = billing == "on-demand"
    names = draw(st.lists(st.sampled_from(("one", "two", "three", "four")), unique=True))
    indexes = [draw(_global(one, types, on_demand=on_demand)) for one in names]
    if local and len(key) == 2 and draw(st.booleans()):
        indexes.append(draw(_local(types)))
    return Table(
        name,
        key,
        indexes=indexes,
        ttl=draw(st.sampled_from((None, "ttl", "expiresAt"))),
        stream=draw(st.sampled_from((None, *VIEWS))),
        pitr=draw(st.none() | st.booleans() | st.integers(1, 35)),
        tags=draw(st.none() | tags),
        billing=billing,
        on_demand_max=draw(st.none() | maximums) if on_demand else None,
        warm=draw(st.none() | warmth),
        table_class=draw(st.sampled_from((None, "STANDARD", "STANDARD_INFREQUENT_ACCESS"))),
        deletion_protection=draw(st.none() | st.booleans()),
        sse=draw(st.none() | st.booleans()),
    )


@st.composite
def _global(draw: DrawFn, name: str, types: dict[str, str], *, on_demand: bool) -> Index:
    chosen = draw(st.lists(st.sampled_from(ATTRIBUTES), min_size=1, max_size=5, unique=True))
    attributes = tuple(Attribute(one, types[one]) for one in chosen)
    cut = draw(st.integers(1, min(4, len(attributes))))
    return Index(
        name,
        key=Key(attributes[:cut], attributes[cut:]),
        projection=draw(_projections),
        throughput=None if on_demand else draw(st.none() | units),
        on_demand_max=draw(st.none() | maximums) if on_demand else None,
        warm=draw(st.none() | warmth),
    )


@st.composite
def _local(draw: DrawFn, types: dict[str, str]) -> Index:
    chosen = draw(st.sampled_from(ATTRIBUTES))
    return Index("nearby", "id:S", Attribute(chosen, types[chosen]), projection=draw(_projections), local=True)


_projections: Any = st.sampled_from(("ALL", "KEYS_ONLY")) | st.lists(
    st.sampled_from(("p", "q", "r")), min_size=1, unique=True
)
