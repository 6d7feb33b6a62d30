"""Holds raw answers against botocore's model: a parser drops what it does not know, and would hide a wrong name."""

from __future__ import annotations

import base64
import json
from typing import Any

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "long": (int,),
    "double": (int, float),
    "timestamp": (int, float),
    "blob": (str,),
    "list": (list,),
    "map": (dict,),
    "structure": (dict,),
}

# DynamoDB answers with it beside BillingModeSummary, though no SDK's model has it.
_UNMODELLED = {"TableThroughputModeSummary"}


def watch(client: Any) -> None:
    """From now on an answer to `client` that its model does not describe fails the call with AssertionError."""
    client.meta.events.register("before-parse.*", _check_answer)


def _check_answer(operation_model: Any, response_dict: dict[str, Any], **_: Any) -> None:
    if response_dict["status_code"] != 200 or operation_model.output_shape is None:
        return
    wrong = differences(operation_model.output_shape, json.loads(response_dict["body"]), operation_model.name)
    assert wrong == [], wrong


def differences(shape: Any, value: Any, path: str) -> list[str]:
    """Where `value` is not what `shape` describes, each as a path and what is wrong with it."""
    if not isinstance(value, _PYTHON_TYPES[shape.type_name]) or (
        isinstance(value, bool) and shape.type_name != "boolean"
    ):
        return [f"{path}: {value!r} is not a {shape.type_name}"]
    match shape.type_name:
        case "structure":
            return _structure(shape, value, path)
        case "list":
            return [w for at, each in enumerate(value) for w in differences(shape.member, each, f"{path}[{at}]")]
        case "map":
            return [w for key, each in value.items() for w in differences(shape.value, each, f"{path}[{key!r}]")]
        case "blob":
            base64.b64decode(value, validate=True)
        case "string" if shape.enum and value not in shape.enum:
            return [f"{path}: {value!r} is none of {shape.enum}"]
    return []


def _structure(shape: Any, value: dict[str, Any], path: str) -> list[str]:
    wrong = [f"{path}: unknown member {name}" for name in value.keys() - shape.members.keys() - _UNMODELLED]
    wrong += [f"{path}: {name} is missing" for name in set(shape.required_members) - value.keys()]
    for name in value.keys() & shape.members.keys():
        wrong += differences(shape.members[name], value[name], f"{path}.{name}")
    return wrong
