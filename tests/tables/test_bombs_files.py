"""Definitions, exports and credentials that are JSON, and no JSON of ours: each is refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.server.auth.credentials import load_credentials
from penstock.tables.definitions.export_file import read_export
from penstock.tables.formats.cloudformation import read_template

BOMBS = {
    "a hundred thousand lists": "[" * 100_000,
    "a hundred thousand objects": '{"a":' * 100_000,
    "closed as well": '{"a":' + "[" * 50_000 + "]" * 50_000 + "}",
    "a number of a million digits": '{"Resources": ' + "9" * 1_000_000 + "}",
    "a number that is too large": '{"Resources": 1E400000000}',
    "not a number": '{"Resources": NaN}',
    "half of a character": '{"Resources": "\\ud800"}',
    "NUL": '{"Resources": "\x00"}',
    "the same name twice": '{"Resources": {}, "Resources": 1}',
    "a list in place of an object": "[]",
    "nothing": "",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_is_no_json_of_ours_is_refused_by_name(name: str, tmp_path: Path) -> None:
    text = BOMBS[name]
    with pytest.raises(PenstockError, match=r"bomb\.json"):
        read_template(text, "bomb.json")
    with pytest.raises(PenstockError, match=r"bomb\.json"):
        read_export(text, file="bomb.json")
    path = tmp_path / "bomb.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PenstockError, match=r"bomb\.json"):
        load_credentials(path)


def test_half_of_a_character_in_the_name_of_an_attribute_is_refused_by_name() -> None:
    shape = {
        "TableName": "orders",
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
        "TimeToLiveSpecification": {"AttributeName": "\ud800", "Enabled": True},
    }
    resource = {"Type": "AWS::DynamoDB::Table", "Properties": shape}
    with pytest.raises(PenstockError, match=r"bomb\.json.*surrogate"):
        read_template(json.dumps({"Resources": {"A": resource}}), "bomb.json")
    del shape["TimeToLiveSpecification"]
    described = {"TimeToLiveStatus": "ENABLED", "AttributeName": "\ud800"}
    with pytest.raises(PenstockError, match=r"bomb\.json.*surrogate"):
        read_export(json.dumps({"Table": shape, "TimeToLiveDescription": described}), file="bomb.json")
