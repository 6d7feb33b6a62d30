"""How golden cases are written: a request beside what DynamoDB answers to it."""

from __future__ import annotations

from typing import Any

import pytest
from sample_tables import index, make, rows, table

from penstock.engine import Engine
from penstock.errors import DynamoDBError

INVALID = "One or more parameter values were invalid: "

PLAIN = table("plain", "pk:S")
FULL = table(
    "full",
    "pk:S / sk:N",
    globals_=(
        index("by_a", "a:S"),
        index("by_ab", "a:S / b:N", "KEYS_ONLY"),
        index("include", "c:S", "INCLUDE", ("x",)),
    ),
    locals_=(index("local_b", "pk:S / b:N", "KEYS_ONLY"), index("local_c", "pk:S / c:S")),
)


def s(text: str) -> dict[str, str]:
    return {"S": text}


def n(number: float | str) -> dict[str, str]:
    return {"N": str(number)}


def make_tables(engine: Engine) -> Engine:
    """`plain` has one item; `full` has six in two partitions."""
    make(engine, PLAIN)
    make(engine, FULL)
    item = {"pk": s("a"), "words": s("hello"), "number": n(5), "set": {"SS": ["x", "y"]}, "numbers": {"NS": ["1", "2"]}}
    item |= {"list": {"L": [n(1), s("two"), n(3)]}, "map": {"M": {"in": {"M": {"deep": n(1)}}, "side": s("s")}}}
    put(engine, "plain", item)
    for number in range(4):
        put(
            engine, "full", {"pk": s("p"), "sk": n(number), "a": s("A"), "b": n(-number), "x": s("seen"), "y": s("not")}
        )
    put(engine, "full", {"pk": s("q"), "sk": n(0), "c": s("C"), "x": s("seen"), "y": s("not")})
    put(engine, "full", {"pk": s("q"), "sk": n(1)})
    return engine


def put(engine: Engine, name: str, item: dict[str, Any]) -> None:
    engine.execute("PutItem", {"TableName": name, "Item": item})


ENVELOPE = "1 validation error detected: "


def refusal(engine: Engine, operation: str, request: dict[str, Any]) -> tuple[str, str]:
    """The code and the text of the error; nothing may have changed.

    AWS is putting many texts into an envelope, call by call (docs/decisions/0004-wording.md): the text here is
    without it.
    """
    before = [rows(engine, name) for name in ("plain", "full")]
    with pytest.raises(DynamoDBError) as caught:
        engine.execute(operation, request)
    assert [rows(engine, name) for name in ("plain", "full")] == before
    return caught.value.code, caught.value.message.removeprefix(ENVELOPE)
