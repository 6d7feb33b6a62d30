"""The compiled encoders and decoders against botocore's own serialiser, validator and parser."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import datetime

import botocore.session
import pytest
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from botocore.validate import ParamValidator
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.boto3.codec import Decoders, Encoders, decode_value, encode_value

SERVICES = {name: botocore.session.Session().get_service_model(name) for name in ("dynamodb", "dynamodbstreams")}
DYNAMODB = SERVICES["dynamodb"]

texts = st.text(st.characters(codec="utf-8"), max_size=8)
values = st.recursive(
    st.one_of(
        st.builds(lambda text: {"S": text}, texts),
        st.builds(lambda number: {"N": str(number)}, st.integers()),
        st.builds(lambda blob: {"B": blob}, st.binary(max_size=8)),
        st.builds(lambda blobs: {"BS": blobs}, st.lists(st.binary(max_size=8), max_size=3)),
        st.builds(lambda members: {"SS": members}, st.lists(texts, max_size=3)),
        st.builds(lambda flag: {"BOOL": flag}, st.booleans()),
        st.just({"NULL": True}),
    ),
    lambda inner: st.one_of(
        st.builds(lambda members: {"L": members}, st.lists(inner, max_size=3)),
        st.builds(lambda members: {"M": members}, st.dictionaries(texts, inner, max_size=3)),
    ),
    max_leaves=8,
)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts, st.binary(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["S", "N", "B", "BS", "L", "M", "NULL", "x"]), inner, max_size=2),
    ),
    max_leaves=6,
)


def sent_by_botocore(operation, params):
    model = DYNAMODB.operation_model(operation)
    return json.loads(create_serializer("json").serialize_to_request(params, model)["body"])


@given(st.dictionaries(texts, values, max_size=4))
def test_an_item_is_encoded_as_botocore_encodes_it(item):
    params = {"TableName": "jobs", "Item": item}
    encode = Encoders().of(DYNAMODB.operation_model("PutItem").input_shape)
    assert encode(params) == sent_by_botocore("PutItem", params)


@given(values)
def test_a_value_comes_back_as_it_went(value):
    assert decode_value(encode_value(value)) == value


@given(st.dictionaries(texts, values, max_size=4))
def test_an_answer_is_decoded_as_botocore_parses_it(item):
    shape = DYNAMODB.operation_model("GetItem").output_shape
    wire = {"Item": {name: encode_value(value) for name, value in item.items()}}
    answer = {"status_code": 200, "headers": {}, "body": json.dumps(wire).encode()}
    parsed = create_parser("json").parse(answer, shape)
    parsed.pop("ResponseMetadata")
    assert Decoders().of(shape)(wire) == parsed


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(["TableName", "Item", "ReturnValues", "Nonsense"]), anything, max_size=4))
def test_an_encoder_never_vouches_for_what_botocore_refuses(params):
    shape = DYNAMODB.operation_model("PutItem").input_shape
    try:
        encoded = Encoders().of(shape)(params)
    except LookupError:
        return
    assert not ParamValidator().validate(params, shape).has_errors()
    assert encoded == sent_by_botocore("PutItem", params)


@pytest.mark.parametrize("service", SERVICES)
def test_every_operation_compiles(service):
    encoders, decoders = Encoders(), Decoders()
    for operation in SERVICES[service].operation_names:
        model = SERVICES[service].operation_model(operation)
        encoders.of(model.input_shape)
        decoders.of(model.output_shape)


def test_times_become_datetimes_and_the_answer_given_stays_as_it_was():
    wire = {"Table": {"TableName": "jobs", "CreationDateTime": 1_700_000_000.5}}
    parsed = Decoders().of(DYNAMODB.operation_model("DescribeTable").output_shape)(wire)
    assert isinstance(parsed["Table"]["CreationDateTime"], datetime)
    assert parsed["Table"]["CreationDateTime"].timestamp() == 1_700_000_000.5
    assert wire["Table"]["CreationDateTime"] == 1_700_000_000.5


def test_the_params_given_stay_as_they_were():
    params = {"TableName": "jobs", "Item": {"id": {"S": "1"}, "list": {"L": [{"B": b"x"}]}}}
    encoded = Encoders().of(DYNAMODB.operation_model("PutItem").input_shape)(params)
    assert encoded["Item"]["list"] == {"L": [{"B": b64encode(b"x").decode()}]}
    assert params["Item"]["list"] == {"L": [{"B": b"x"}]}
