"""Heads that a connection has sent before: what they mean is known without parsing them again.

An SDK sends the same head with each request, but for a few places: the date, the signature, an id of the call, the
length of the body. Those are a known head's *holes*.

1. A head is learned from a request that the parser has read whole, and that was routed to the engine.
2. A request fits a known head when all bytes outside the holes are the same, each hole holds as many bytes as before,
   of letters, digits and dashes only, and Content-Length counts exactly what follows the head: in the same read, or as
   the whole of the next one. Such a request is what the parser would make of it, whatever stands in its holes.
3. No head is learned that is framed by anything but one Content-Length, or in which our reading of the lines differs
   from the parser's.
4. What fits no known head goes to the parser.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from penstock.engine.settings import Scope
from penstock.server.replies import Style

KNOWN_HEADS = 8  # of one connection: a few operations, each with a few lengths
MISSES = 8  # in a row, after which a connection's heads are taken to be ever different

ENDING = re.compile(rb"(?<![0-9A-Za-z-])[0-9A-Za-z-]++\Z")  # begins where its run begins: each run is read once
# The part of a header's value that is a hole: one that nothing here looks into, as long as no signature is checked.
_HOLES = {
    b"authorization": re.compile(rb"(?<= Signature=)[0-9A-Za-z]+\Z"),
    b"x-amz-date": ENDING,
    b"x-amz-content-sha256": ENDING,
    b"amz-sdk-invocation-id": ENDING,
    b"traceparent": ENDING,
}
# Headers that frame the body in another way than by its length, or ask for something before it is read.
_SPECIAL = frozenset({b"transfer-encoding", b"content-encoding", b"expect", b"upgrade", b"te", b"trailer"})
_COUNT = re.compile(rb"[1-9][0-9]{0,6}\Z")
FIRST_LINE = b"POST / HTTP/1.1"
END = b"\r\n\r\n"


class Meaning(NamedTuple):
    """What a request's head says about its call and its answer."""

    style: Style
    operation: str
    scope: Scope
    may_be_costly: bool
    """Whether the call may be heavy, which its body shows."""
    heavy_bytes: int


class KnownHead(NamedTuple):
    """A head with holes; `fits` is promise 2."""

    size: int
    length: slice
    constants: tuple[tuple[slice, bytes], ...]
    holes: tuple[slice, ...]
    meaning: Meaning

    def fits(self, data: bytes) -> bool:
        """Whether this is such a head with the body that it announces, or with nothing yet of that body."""
        size, length, constants, holes, _ = self
        counted = data[length]
        follows = len(data) - size
        if follows and counted != b"%d" % follows:
            return False
        if not follows and _COUNT.match(counted) is None:
            return False
        for place, constant in constants:
            if data[place] != constant:
                return False
        for place in holes:  # noqa: SIM110 - all() would take twice as long
            if not data[place].replace(b"-", b"").isalnum():
                return False
        return True


def learn(data: bytes, headers: Mapping[bytes, bytes], meaning: Meaning) -> KnownHead | None:
    """The known head of a request that was parsed to `headers`; None where it can have none.

    `data` is the whole request, or all of its head.
    """
    size = data.find(END) + len(END)
    first, *lines = data[: size - len(END)].split(b"\r\n")
    pairs = [(name.lower(), value) for name, _, value in (line.partition(b": ") for line in lines)]
    if first != FIRST_LINE or len(pairs) != len(headers) or dict(pairs) != headers or not _SPECIAL.isdisjoint(headers):
        return None
    length = slice(0, 0)
    holes: list[slice] = []
    end = len(first)
    for line, (name, value) in zip(lines, pairs, strict=True):
        end += len(line) + 2
        if name == b"content-length":
            length = slice(end - len(value), end)
        elif name in _HOLES and (hole := _HOLES[name].search(value)) is not None:
            holes.append(slice(end - len(hole[0]), end))
    known = KnownHead(size, length, _outside([*holes, length], data, size), tuple(holes), meaning)
    return known if known.fits(data) else None


def _outside(gaps: list[slice], data: bytes, size: int) -> tuple[tuple[slice, bytes], ...]:
    """What stands before, between and behind the gaps of a head."""
    edges = sorted(edge for gap in gaps for edge in (gap.start, gap.stop))
    places = [slice(begin, end) for begin, end in zip([0, *edges[1::2]], [*edges[::2], size], strict=True)]
    return tuple((place, data[place]) for place in places)
