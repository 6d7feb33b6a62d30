"""penstock.webhooks: signatures, URLs, and the addresses that webhooks may go to."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest

from penstock.webhooks import (
    AddressRefused,
    BadSignature,
    BadWebhook,
    Target,
    check_addresses,
    is_public,
    parse_target,
    sign,
    verify,
)

SECRET = "a secret of more than 16 bytes"
BODY = b'{"type":"job.completed","data":{"job_id":"job_1"}}'
NOW = 1_900_000_000


def test_a_signature_is_that_of_standard_webhooks() -> None:
    key = b"0123456789abcdef0123456789abcdef"
    headers = sign(BODY, "job_1.webhook.3", NOW, ["whsec_" + base64.b64encode(key).decode()])
    signed = hmac.new(key, b"job_1.webhook.3.1900000000." + BODY, hashlib.sha256).digest()
    assert headers == {
        "webhook-id": "job_1.webhook.3",
        "webhook-timestamp": "1900000000",
        "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
    }


def test_what_was_signed_is_verified() -> None:
    headers = {name.title(): value for name, value in sign(BODY, "d1", NOW, [SECRET]).items()}
    assert verify(BODY, headers, SECRET, now=NOW)["data"] == {"job_id": "job_1"}
    assert verify(BODY.decode(), headers, SECRET, now=NOW + 299)


def test_secrets_can_be_replaced_on_either_side_first() -> None:
    new = "another secret, which is as long"
    assert verify(BODY, sign(BODY, "d1", NOW, [new, SECRET]), SECRET, now=NOW)
    assert verify(BODY, sign(BODY, "d1", NOW, [SECRET]), [new, SECRET], now=NOW)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"webhook-id": "d2"}, "not signed with this secret"),
        ({"webhook-timestamp": str(NOW + 1)}, "not signed with this secret"),
        ({"webhook-timestamp": str(NOW - 301)}, "signed 301 s ago"),
        ({"webhook-timestamp": str(NOW + 301)}, "signed 301 s in the future"),
        ({"webhook-timestamp": "٣"}, "no time"),
        ({"webhook-timestamp": "nan"}, "no time"),
        ({"webhook-timestamp": ""}, "no webhook-timestamp"),
        ({"webhook-signature": ""}, "no webhook-signature"),
        ({"webhook-signature": "v1,"}, "not signed with this secret"),
        ({"webhook-signature": "v0,abc v1,é"}, "not signed with this secret"),
        ({"webhook-signature": "v1,x " * 100_000}, "not signed with this secret"),
    ],
)
def test_what_was_changed_or_is_old_is_refused(change: dict[str, str], said: str) -> None:
    headers = sign(BODY, "d1", NOW, [SECRET]) | change
    with pytest.raises(BadSignature, match=said):
        verify(BODY, headers, SECRET, now=NOW)


def test_another_body_or_secret_is_refused() -> None:
    headers = sign(BODY, "d1", NOW, [SECRET])
    with pytest.raises(BadSignature, match="not signed"):
        verify(BODY + b" ", headers, SECRET, now=NOW)
    with pytest.raises(BadSignature, match="not signed"):
        verify(BODY, headers, SECRET + "x", now=NOW)
    with pytest.raises(BadSignature, match="no JSON object"):
        verify(b"[]", sign(b"[]", "d1", NOW, [SECRET]), SECRET, now=NOW)


@pytest.mark.parametrize(
    ("body", "change"),
    [
        *((None, {}), ("\ud800", {}), (5, {})),
        *((BODY, {"webhook-id": "\ud800"}), (BODY, {"webhook-signature": "v1,\ud800"})),
        *((BODY, {"webhook-id": b"d1"}), (BODY, {"webhook-timestamp": [str(NOW)]}), (BODY, {"webhook-signature": 5})),
        (BODY, {None: "x", "webhook-id": None}),
    ],
)
def test_whatever_is_received_is_refused_in_one_way(body: Any, change: dict[Any, Any]) -> None:
    with pytest.raises(BadSignature):
        verify(body, sign(BODY, "d1", NOW, [SECRET]) | change, SECRET, now=NOW)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1, "300"])
def test_a_tolerance_is_finite(seconds: Any) -> None:
    with pytest.raises(BadWebhook, match="tolerance_seconds"):
        verify(BODY, sign(BODY, "d1", NOW, [SECRET]), SECRET, now=NOW, tolerance_seconds=seconds)


def test_headers_that_are_no_mapping_are_a_mistake() -> None:
    with pytest.raises(TypeError, match="headers is a mapping"):
        verify(BODY, None, SECRET)  # type: ignore[arg-type]


@pytest.mark.parametrize("secret", ["", "short", "whsec_é", "whsec_", "whsec_not base64!", "whsec_c2hvcnQ=", None])
def test_a_weak_secret_is_refused(secret: str) -> None:
    with pytest.raises(BadWebhook, match="webhook secret") as refused:
        sign(BODY, "d1", NOW, [secret])
    assert not secret or secret not in str(refused.value).replace("whsec_ goes", "")


# ── URLs ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_url_is_taken_apart() -> None:
    assert parse_target("https://Example.com/a?b=c#d") == Target("https", "example.com", 443, "/a?b=c")
    assert parse_target("http://[2606:4700::1111]:8080") == Target("http", "2606:4700::1111", 8080, "/")


@pytest.mark.parametrize(
    "url",
    [
        *("", "example.com", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com", "https://", "//a/b"),
        *("https://user:password@example.com/", "https://example.com:22/", "https://example.com:25", "http://a:0/"),
        *("https://example.com:99999/", "https://example.com:x/", "https://a b/", "https://example.com/\r\nX: y"),
        *("https://exämple.com/", "https://[fe80::1%25eth0]/", "https://[::1/", "https://example.com\\@evil/"),
        *("http://a..b/", "http://.example.com/", "https://" + "a" * 64 + ".com/", "https://" + "a." * 127 + "com/"),
        *("https://./", "https://a!b/"),
        "https://example.com/" + "x" * 2_000,
    ],
)
def test_a_url_that_is_none_of_the_web_is_refused(url: str) -> None:
    with pytest.raises(BadWebhook) as refused:
        parse_target(url)
    assert "password" not in str(refused.value).replace("a user or a password", "")


# ── addresses ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("100.64.0.1", "100.100.100.200", "192.0.0.192", "198.18.0.1", "224.0.0.1", "239.1.1.1", "240.0.0.1"),
        *("255.255.255.255", "168.63.129.16", "192.0.2.1"),
        *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:7f00:1", "::127.0.0.1", "64:ff9b::7f00:1"),
        *("64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::1", "64:ff9b:1::1"),
        *("2001:0:0:0:0:0:80ff:fffe",),  # Teredo, to 127.0.0.1
        *("192.88.99.1", "3fff::1", "2606:4700::5efe:127.0.0.1", "2606:4700::200:5efe:10.0.0.1", "fe80::5efe:8.8.8.8"),
        *("localhost", "2130706433", "0x7f000001", "127.1", ""),  # no address: only a resolver reads these
    ],
)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(AddressRefused, match="allow_private_webhooks"):
        check_addresses("hooks.example.com", ["93.184.215.14", address], allow_private=False)
    check_addresses("hooks.example.com", [address], allow_private=True)


@pytest.mark.parametrize(
    "address",
    ["93.184.215.14", "2606:2800:21f:cb07::1", "::ffff:93.184.215.14", "64:ff9b::808:808", "2606:4700::5efe:8.8.8.8"],
)
def test_a_public_address_is_taken(address: str) -> None:
    check_addresses("example.com", [address], allow_private=False)


def test_a_name_without_addresses_is_refused() -> None:
    with pytest.raises(AddressRefused, match="has no address"):
        check_addresses("example.com", [], allow_private=True)
