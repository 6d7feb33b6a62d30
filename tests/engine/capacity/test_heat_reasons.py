"""Heat keeps why calls were throttled, in DynamoDB's words."""

from __future__ import annotations

from penstock.engine.capacity.hot_keys import Heat, merged

HOT = "TableWriteKeyRangeThroughputExceeded"


def counted(times: int) -> Heat:
    heat = Heat(100.0)
    heat.used(("orders", ""), "Write", 5.0, "c1", (0, 9))
    for _ in range(times):
        heat.throttled(("orders", ""), "c1", (0, 9), HOT)
    return heat


def test_reasons_are_counted_for_each_table_and_index() -> None:
    (told,) = counted(3).as_dict()["resources"]
    assert told["reasons"] == {HOT: 3}
    assert told["throttled"] == 3


def test_runs_are_merged_with_their_reasons_also_with_those_that_kept_none() -> None:
    older = counted(1).as_dict()
    del older["resources"][0]["reasons"]
    (told,) = merged([counted(2).as_dict(), counted(3).as_dict(), older])["resources"]
    assert told["reasons"] == {HOT: 5}
    assert told["throttled"] == 6
