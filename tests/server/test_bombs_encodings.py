"""Bodies that are small on the wire and large, or much work, when they are unpacked."""

from __future__ import annotations

import gzip
import zlib

import pytest

from penstock.errors import InternalServerError
from penstock.server.replies import BodyTooLarge, unpack
from penstock.wire.limits import REQUEST_BYTES


@pytest.mark.parametrize(("encoding", "pack"), [(b"gzip", gzip.compress), (b"deflate", zlib.compress)])
def test_a_body_that_unpacks_to_more_than_a_request_is_too_large(encoding: bytes, pack) -> None:
    assert len(unpack(encoding, pack(b"x" * REQUEST_BYTES, 1))) == REQUEST_BYTES
    with pytest.raises(BodyTooLarge):
        unpack(encoding, pack(b"x" * (REQUEST_BYTES + 1), 1))


def test_several_members_are_one_body_and_thousands_are_refused() -> None:
    # Each member costs a copy of what follows it: a body of empty ones costs their number squared.
    assert unpack(b"gzip", gzip.compress(b"{") + gzip.compress(b"") + gzip.compress(b"}")) == b"{}"
    with pytest.raises(InternalServerError):
        unpack(b"gzip", gzip.compress(b"") * 5_000 + gzip.compress(b"{}"))
