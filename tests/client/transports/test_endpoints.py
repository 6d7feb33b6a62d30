"""What a URL means, and what a wrong one is told."""

from __future__ import annotations

import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.transports.endpoints import Endpoint, File, Host, parse
from penstock.errors import BadUrl


@pytest.mark.parametrize(
    "url", ["jobs.db", ":memory:", "/var/data/jobs.db", "a:b.db", "data/jobs.db", "C:\\data\\jobs.db", "jobs.v2.db"]
)
def test_what_has_no_scheme_is_a_file(url):
    assert parse(url, {}) == File(url)


@pytest.mark.parametrize(
    ("url", "host", "authority"),
    [
        ("http://localhost:8000", Host(False, "localhost", 8000), "localhost:8000"),
        ("http://localhost", Host(False, "localhost", 80), "localhost"),
        ("https://db.example.org", Host(True, "db.example.org", 443), "db.example.org"),
        ("https://db.example.org:443/", Host(True, "db.example.org", 443), "db.example.org"),
        ("http://[::1]:8000", Host(False, "::1", 8000), "[::1]:8000"),
        ("HTTP://LOCALHOST:8000/a/b", Host(False, "localhost", 8000, "/a/b"), "localhost:8000"),
        ("http://bücher.example:8000", Host(False, "xn--bcher-kva.example", 8000), "xn--bcher-kva.example:8000"),
    ],
)
def test_an_http_url_names_its_host_for_items_and_streams(url, host, authority):
    endpoint = parse(url, {})
    assert isinstance(endpoint, Endpoint)
    assert (endpoint.host, endpoint.streams, endpoint.aws) == (host, host, False)
    assert endpoint.host.authority == authority
    assert endpoint.region == "us-east-1"


def test_a_region_comes_from_the_url_then_the_environment_then_a_default():
    def region(url, **environment):
        return parse(url, environment).region

    assert region("http://localhost?region=eu-west-1", AWS_REGION="eu-west-2") == "eu-west-1"
    assert region("http://localhost", AWS_REGION="eu-west-2", AWS_DEFAULT_REGION="eu-west-3") == "eu-west-2"
    assert region("http://localhost", AWS_DEFAULT_REGION="eu-west-3") == "eu-west-3"
    assert region("aws://", AWS_REGION="eu-west-2") == "eu-west-2"
    assert region("aws://eu-west-1", AWS_REGION="eu-west-2") == "eu-west-1"


def test_a_profile_may_tell_the_region_and_is_passed_on():
    asked = []
    endpoint = parse("aws://?profile=reports", {}, lambda profile: asked.append(profile) or "sa-east-1")
    assert asked == ["reports"]
    assert (endpoint.region, endpoint.profile, endpoint.name) == (
        "sa-east-1",
        "reports",
        "aws://sa-east-1?profile=reports",
    )
    assert parse("aws://eu-west-1", {"AWS_PROFILE": "other"}).profile == "other"


REGIONS = ["us-east-1", "eu-west-2", "us-gov-west-1", "cn-north-1", "us-iso-east-1", "us-isob-east-1", "eusc-de-east-1"]


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("service", ["dynamodb", "dynamodbstreams"])
def test_an_aws_url_goes_where_botocore_goes(region, service):
    endpoint = parse(f"aws://{region}", {})
    assert isinstance(endpoint, Endpoint)
    ours = endpoint.host if service == "dynamodb" else endpoint.streams
    assert ours.url == botocore_endpoint(service, region)
    assert endpoint.aws


@pytest.mark.parametrize("region", ["us-east-1", "ca-central-1", "us-gov-west-1"])
@pytest.mark.parametrize(
    "flags",
    [
        {"AWS_USE_FIPS_ENDPOINT": "true"},
        {"AWS_USE_DUALSTACK_ENDPOINT": "true"},
    ],
)
@pytest.mark.parametrize("service", ["dynamodb", "dynamodbstreams"])
def test_fips_and_dual_stack_are_botocores_too(region, flags, service, monkeypatch):
    for name, value in flags.items():
        monkeypatch.setenv(name, value)
    endpoint = parse(f"aws://{region}", flags)
    assert isinstance(endpoint, Endpoint)
    ours = endpoint.host if service == "dynamodb" else endpoint.streams
    assert ours.url == botocore_endpoint(service, region)


def botocore_endpoint(service: str, region: str) -> str:
    session = botocore.session.Session()
    session.set_credentials("a", "b")
    return str(session.create_client(service, region_name=region).meta.endpoint_url)


def test_the_environment_may_send_an_aws_url_elsewhere():
    named = parse("aws://eu-west-2", {"AWS_ENDPOINT_URL": "http://a:1", "AWS_ENDPOINT_URL_DYNAMODB": "http://b:2"})
    assert isinstance(named, Endpoint)
    assert named.host == named.streams == Host(False, "b", 2)
    assert (named.region, named.aws) == ("eu-west-2", True)
    assert "http://b:2" in named.name
    assert parse("aws://eu-west-2", {"AWS_ENDPOINT_URL": "http://a:1"}).host == Host(False, "a", 1)
    ignored = {"AWS_ENDPOINT_URL": "http://a:1", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}
    assert parse("aws://eu-west-2", ignored).host.host == "dynamodb.eu-west-2.amazonaws.com"


@pytest.mark.parametrize(
    ("url", "streams", "region"),
    [
        ("https://dynamodb.eu-west-2.amazonaws.com", "streams.dynamodb.eu-west-2.amazonaws.com", "eu-west-2"),
        ("https://streams.dynamodb.eu-west-2.amazonaws.com", "streams.dynamodb.eu-west-2.amazonaws.com", "eu-west-2"),
        ("https://123456789012.ddb.us-east-1.amazonaws.com", "streams.dynamodb.us-east-1.amazonaws.com", "us-east-1"),
    ],
)
def test_a_host_of_awss_needs_real_credentials_and_has_a_streams_host(url, streams, region):
    endpoint = parse(url, {"AWS_REGION": "sa-east-1"})
    assert isinstance(endpoint, Endpoint)
    assert endpoint.aws
    assert (endpoint.streams.host, endpoint.region) == (streams, region)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://localhost",
        "dynamodb://localhost",
        "http://",
        "http://:8000",
        "http://localhost:99999",
        "http://localhost:0",
        "http://localhost:port",
        "http://local host:8000",
        "http://localhost/a\r\nX-Injected: yes",
        "http://localhost/../up",
        "http://localhost//twice",
        "http://localhost?colour=red",
        "http://localhost#part",
        "http://[::1",
        "aws://",
        "aws://Europe",
        "aws://eu-west-2/table",
        "aws://eu-west-2?colour=red",
        "aws://eu-west-2.example.org",
    ],
)
def test_a_wrong_url_is_a_typed_error_with_a_next_step(url):
    with pytest.raises(BadUrl) as refused:
        parse(url, {})
    assert refused.value.next_step
    assert not refused.value.retryable
    assert not refused.value.sent


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("localhost:8000", "http://localhost:8000"),
        ("10.0.0.7:8000/db", "http://10.0.0.7:8000/db"),
        ("127.0.0.1", "http://127.0.0.1"),
        ("localhost", "http://localhost"),
        ("localhost/shop", "http://localhost/shop"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("http:/localhost:8000", "http://localhost:8000"),
        ("https//db.example.org", "https://db.example.org"),
        ("HTTP:localhost", "http://localhost"),
        ("aws:eu-west-2", "aws://eu-west-2"),
        ("dynamodb.eu-west-1.amazonaws.com", "https://dynamodb.eu-west-1.amazonaws.com"),
        ("db.example.org", "http://db.example.org"),
        ("dynamo.internal", "http://dynamo.internal"),
    ],
)
def test_an_endpoint_without_its_scheme_does_not_become_a_file(url, meant):
    with pytest.raises(BadUrl, match="looks like an endpoint") as refused:
        parse(url, {})
    assert f"Write {meant};" in str(refused.value)
    assert parse(f"./{url}", {}) == File(f"./{url}")


def test_credentials_in_a_url_are_refused_and_not_repeated():
    with pytest.raises(BadUrl) as refused:
        parse("http://key:hunter2@localhost:8000", {})
    assert "hunter2" not in str(refused.value)
    assert "localhost:8000" in str(refused.value)


def test_an_environment_without_sense_is_refused_too():
    with pytest.raises(BadUrl):
        parse("aws://eu-west-2", {"AWS_ENDPOINT_URL": "localhost:8000"})
    with pytest.raises(BadUrl):
        parse("http://localhost", {"AWS_REGION": "eu west"})


@given(
    st.text(max_size=40) | st.builds("http://{}".format, st.text(max_size=40)) | st.builds("aws://{}".format, st.text())
)
def test_any_text_is_a_target_or_a_bad_url(url):
    try:
        target = parse(url, {})
    except BadUrl as error:
        assert error.next_step
    else:
        assert target.name
