"""UpdateTimeToLive and DescribeTimeToLive: what they allow. That items really go is another file's."""

from __future__ import annotations

import pytest

from penstock.clock import ManualClock
from penstock.engine import Engine, Settings
from penstock.errors import DynamoDBError, ResourceNotFoundException


def create(engine: Engine) -> None:
    request = {
        "TableName": "jobs",
        "AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
    }
    engine.execute("CreateTable", request)


def change(engine: Engine, attribute: str, enabled: bool) -> None:
    specification = {"AttributeName": attribute, "Enabled": enabled}
    request = {"TableName": "jobs", "TimeToLiveSpecification": specification}
    assert engine.execute("UpdateTimeToLive", request) == {"TimeToLiveSpecification": specification}


def described(engine: Engine) -> dict[str, str]:
    found: dict[str, str] = engine.execute("DescribeTimeToLive", {"TableName": "jobs"})["TimeToLiveDescription"]
    return found


def refusal(engine: Engine, attribute: str, enabled: bool) -> str:
    with pytest.raises(DynamoDBError) as refused:
        change(engine, attribute, enabled)
    return refused.value.message


def test_time_to_live_is_off_on_and_off_again(engine: Engine) -> None:
    create(engine)
    assert described(engine) == {"TimeToLiveStatus": "DISABLED"}
    change(engine, "ttl", True)
    assert described(engine) == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}
    change(engine, "ttl", False)
    assert described(engine) == {"TimeToLiveStatus": "DISABLED"}


def test_each_change_must_be_one(engine: Engine) -> None:
    create(engine)
    assert refusal(engine, "ttl", False) == "TimeToLive is already disabled"
    change(engine, "ttl", True)
    assert refusal(engine, "ttl", True) == "TimeToLive is already enabled"


@pytest.mark.parametrize("enabled", [True, False])
def test_another_attribute_needs_the_first_one_switched_off(engine: Engine, enabled: bool) -> None:
    create(engine)
    change(engine, "ttl", True)
    assert refusal(engine, "other", enabled) == (
        "TimeToLive is active on a different AttributeName: current AttributeName is ttl"
    )


def test_the_attribute_has_a_name(engine: Engine) -> None:
    create(engine)
    assert refusal(engine, "", True) == (
        "1 validation error detected: Value '' at 'timeToLiveSpecification.attributeName' failed to satisfy "
        "constraint: Member must have length greater than or equal to 1"
    )


def test_a_missing_table_is_named(engine: Engine) -> None:
    with pytest.raises(ResourceNotFoundException, match="Table: jobs not found"):
        engine.execute("DescribeTimeToLive", {"TableName": "jobs"})
    assert refusal(engine, "ttl", True) == "Requested resource not found: Table: jobs not found"


def test_a_table_that_is_not_ready_has_none_to_describe() -> None:
    with Engine(clock=ManualClock(), settings=Settings(table_delay_seconds=10)) as engine:
        create(engine)
        with pytest.raises(DynamoDBError) as refused:
            described(engine)
        assert refused.value.message == (
            "Cannot describe time to live while table is in CREATING state: Current table state is CREATING"
        )
