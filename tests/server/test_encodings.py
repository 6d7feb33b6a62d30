from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InternalServerError
from penstock.server.replies import chosen_encoding, pack, unpack


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("identity", ""),
        ("", ""),
        ("br", ""),
        ("x-gzip", ""),
        ("gzip, deflate", "gzip"),
        ("br, identity, deflate, gzip", "deflate"),
        ("GZIP, identity", "gzip"),
        ("dog, gzip ,, cat", "gzip"),
        ("gzip;q=0.8, deflate;q=0.5", "gzip"),
        ("br, gzip;q=0, deflate; q = 0.5 , identity;q=0", "deflate"),
        ("*", "gzip"),
        ("*, deflate;q=0.5", "gzip"),
        ("*, deflate", "deflate"),
        ("*, gzip;q=0.5", "deflate"),
        ("*;q=0", ""),
        ("*;q=0.5,identity", "gzip"),
        ("gzip ;q=0", ""),
        ("br;q=0.8,identity;q=0.5,*;q=0", ""),
        ('"gzip"', ""),
        ("gzip br", ""),
        ("gzip:q=1", ""),
        ("gzip;q=31,deflate;q=51", "gzip"),
        ("deflate;q=0.5, gzip;q=0.2", "deflate"),
        ("deflate;q=0.5, gzip;q=1;q=0.2", "gzip"),
        ("deflate;q=0.5,gzip;q=0.", "deflate"),
        ("deflate;q=0.5,gzip;q=0.x", "gzip"),
        ("deflate;q=-0.5,gzip;q=0.2", "gzip"),
        ("gzip;nq=1;q=0 ", "gzip"),
        ("gzip;freq=0", ""),
        ("gzip;q\t=0", "gzip"),
        ("gzip;q= 0 ", ""),
        ("gzip;q=0, gzip;q=1, gzip;q=0", "gzip"),
        ("br,identity;q=0.5,gzip;q=0.0001", "gzip"),
    ],
)
def test_the_coding_is_chosen_as_aws_chooses(accept: str, chosen: str) -> None:
    assert chosen_encoding(accept.encode()) == chosen.encode()


@given(st.text(st.sampled_from("gzip, deflate;q=0.1*x-\x00é"), max_size=60))
def test_any_accept_header_gives_a_coding_or_none(accept: str) -> None:
    assert chosen_encoding(accept.encode("latin-1")) in (b"", b"gzip", b"deflate")


@given(st.binary(max_size=2000))
def test_packing_is_undone_by_unpacking(body: bytes) -> None:
    assert gzip.decompress(pack(b"gzip", body)) == body == unpack(b"gzip", pack(b"gzip", body))
    assert zlib.decompress(pack(b"deflate", body)) == body == unpack(b"deflate", pack(b"deflate", body))


@pytest.mark.parametrize("body", [b"", b"{}", zlib.compress(b"{}")[:-1], zlib.compress(b"{}") + b"{}"])
def test_a_deflated_body_that_is_broken_is_refused(body: bytes) -> None:
    with pytest.raises(InternalServerError):
        unpack(b"deflate", body)
