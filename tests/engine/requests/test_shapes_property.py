"""Laws: no request makes `check` fail in any way but DynamoDB's own; a right one passes untouched."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import botocore
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.requests import REQUESTS, check
from penstock.errors import DynamoDBError

DATA = Path(botocore.__file__).parent / "data"

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)


@cache
def model() -> dict[str, Any]:
    services = [json.loads(gzip.decompress(path.read_bytes())) for path in DATA.glob("dynamodb*/*/service-2.json.gz")]
    inputs = {}
    for service in services:
        for name, operation in service["operations"].items():
            inputs[name] = (service["shapes"], operation["input"]["shape"])
    return inputs


def likely(shapes: dict[str, Any], name: str, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values of a shape of botocore's model, some of them wrong."""
    shape = shapes[name]
    match shape["type"]:
        case "structure" | "union":
            right = st.fixed_dictionaries(
                {},
                optional={
                    member: likely(shapes, one["shape"], depth + 1)
                    for member, one in shape["members"].items()
                    if depth < 6
                },
            )
        case "list":
            right = st.lists(st.deferred(lambda: likely(shapes, shape["member"]["shape"], depth + 1)), max_size=3)
        case "map":
            value = st.deferred(lambda: likely(shapes, shape["value"]["shape"], depth + 1))
            right = st.dictionaries(st.sampled_from(["abc", "a", ":v", "#n", "a;"]), value, max_size=3)
        case "string":
            right = st.sampled_from(shape.get("enum", ["abc", "", "a;", "x" * 300]))
        case "boolean":
            right = st.booleans()
        case "integer" | "long" | "timestamp" | "double":
            right = st.integers(-3, 1_000_001) | st.floats()
        case _:
            right = st.sampled_from(["YQ==", "", "a", "+/+="])
    return right if depth % 3 else right | anything


# botocore from 1.44 on has four more, of bulk puts.
KNOWN_TO_BOTOCORE = sorted(set(REQUESTS) & set(model()))


@pytest.mark.parametrize("operation", KNOWN_TO_BOTOCORE)
def test_only_dynamodbs_errors_come_out(operation: str) -> None:
    shapes, name = model()[operation]

    @settings(max_examples=25, deadline=None)
    @given(likely(shapes, name))
    def law(request: Any) -> None:
        try:
            checked = check(operation, request)
        except DynamoDBError as refused:
            assert refused.code in ("ValidationException", "SerializationException")
        else:
            assert check(operation, checked) == checked

    law()


def members_of(operation: str) -> set[str]:
    shapes, name = model()[operation]
    return set(shapes[name]["members"])


@pytest.mark.parametrize("operation", KNOWN_TO_BOTOCORE)
def test_every_member_of_botocores_model_is_written_down(operation: str) -> None:
    known = set(REQUESTS[operation].structure.members)
    assert known == members_of(operation)
