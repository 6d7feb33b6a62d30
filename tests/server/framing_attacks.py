"""Requests that two servers might end at different places: what smuggling is made of. Each is followed by `SECOND`."""

from __future__ import annotations

HEAD = (
    b"POST / HTTP/1.1\r\nHost: a\r\nX-Amz-Target: DynamoDB_20120810.GetItem\r\nX-Amz-Date: 20260101T000000Z\r\n"
    b"Content-Type: application/x-amz-json-1.0\r\nAuthorization: AWS4-HMAC-SHA256 "
    b"Credential=K/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=a\r\n"
)
SECOND = b"GET /healthz HTTP/1.1\r\nHost: b\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
TWO = b"2\r\n{}\r\n0\r\n\r\n"


def _sized(header: bytes, body: bytes = b"{}") -> bytes:
    return HEAD + header + b"\r\n\r\n" + body


def _chunks(body: bytes, header: bytes = CHUNKED) -> bytes:
    return HEAD + header + b"\r\n" + body


REFUSED: dict[str, bytes] = {
    "no host": _sized(b"Content-Length: 2").replace(b"Host: a\r\n", b""),
    "two hosts": _sized(b"Content-Length: 2\r\nHost: b"),
    "one host twice": _sized(b"Content-Length: 2\r\nhost: a"),
    "an empty host and another": _sized(b"Host: \r\nContent-Length: 2"),
    "length, then chunks": _chunks(TWO, b"Content-Length: 2\r\n" + CHUNKED),
    "chunks, then length": _chunks(TWO, CHUNKED + b"Content-Length: 2\r\n"),
    "two lengths": _sized(b"Content-Length: 2\r\nContent-Length: 3"),
    "one length twice": _sized(b"Content-Length: 2\r\nContent-Length: 2"),
    "a list of lengths": _sized(b"Content-Length: 2, 2"),
    "a length with a plus": _sized(b"Content-Length: +2"),
    "a negative length": _sized(b"Content-Length: -2"),
    "a length in two words": _sized(b"Content-Length: 2 0"),
    "a hexadecimal length": _sized(b"Content-Length: 0x2"),
    "a length with an underscore": _sized(b"Content-Length: 0_2"),
    "an empty length": _sized(b"Content-Length: "),
    "a length in other digits": _sized("Content-Length: ٢".encode()),
    "a length too long for any machine": _sized(b"Content-Length: 99999999999999999999999"),
    "a space before the colon": _sized(b"Content-Length : 2"),
    "a folded length": _sized(b"Content-Length:\r\n 2"),
    "a folded header": _sized(b"X: a\r\n b\r\nContent-Length: 2"),
    "a lone LF between headers": _sized(b"X: a\nContent-Length: 2"),
    "a lone LF behind the headers": HEAD + b"Content-Length: 2\r\n\n{}",
    "a lone CR in a header": _sized(b"X: a\rContent-Length: 2"),
    "NUL in a header": _sized(b"X: a\x00b\r\nContent-Length: 2"),
    "a control character in a header": _sized(b"X: a\x01b\r\nContent-Length: 2"),
    "a header without a name": _sized(b": a\r\nContent-Length: 2"),
    "a header without a colon": _sized(b"abc\r\nContent-Length: 2"),
    "a coding that is nearly chunked": _chunks(TWO, b"Transfer-Encoding: xchunked\r\n"),
    "a coding behind a vertical tab": _chunks(TWO, b"Transfer-Encoding: \x0bchunked\r\n"),
    "a coding in quotes": _chunks(TWO, b'Transfer-Encoding: "chunked"\r\n'),
    "chunked, and then something else": _chunks(TWO, b"Transfer-Encoding: chunked, gzip\r\n"),
    "something else, and then chunked": _chunks(TWO, b"Transfer-Encoding: gzip, chunked\r\n"),
    "identity": _chunks(TWO, b"Transfer-Encoding: identity\r\n"),
    "chunked twice": _chunks(TWO, CHUNKED + CHUNKED),
    "chunked in HTTP/1.0": _chunks(TWO).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "a chunk size with a plus": _chunks(b"+2\r\n{}\r\n0\r\n\r\n"),
    "a chunk size with 0x": _chunks(b"0x2\r\n{}\r\n0\r\n\r\n"),
    "a chunk size with an underscore": _chunks(b"0_2\r\n{}\r\n0\r\n\r\n"),
    "a space behind a chunk size": _chunks(b"2 \r\n{}\r\n0\r\n\r\n"),
    "a chunk size too long for any machine": _chunks(b"ffffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
    "a chunk size that ends with LF": _chunks(b"2\n{}\r\n0\r\n\r\n"),
    "a chunk that ends with LF": _chunks(b"2\r\n{}\n0\r\n\r\n"),
    "a chunk longer than its size": _chunks(b"2\r\n{}}\r\n0\r\n\r\n"),
    "LF in an extension": _chunks(b"2;a\nb\r\n{}\r\n0\r\n\r\n"),
    "a line break in a quoted extension": _chunks(b'2;a="x\r\ny"\r\n{}\r\n0\r\n\r\n'),
    "a length among the trailers": _chunks(b"2\r\n{}\r\n0\r\nContent-Length: 35\r\n\r\n"),
    "a coding among the trailers": _chunks(b"2\r\n{}\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "a trailer that is none": _chunks(b"2\r\n{}\r\n0\r\nbad\r\n\r\n"),
}
TAKEN: dict[str, bytes] = {
    "a length": _sized(b"Content-Length: 2"),
    "an empty host": _sized(b"Content-Length: 2").replace(b"Host: a\r\n", b"Host:\r\n"),
    "a host among the trailers": _chunks(b"2\r\n{}\r\n0\r\nHost: b\r\n\r\n"),
    "a length in spaces": _sized(b"Content-Length: \t 2 "),
    "a length with noughts": _sized(b"Content-Length: 002"),
    "chunks": _chunks(TWO),
    "chunks, written large": _chunks(TWO, b"Transfer-Encoding: CHUNKED\r\n"),
    "an extension": _chunks(b"2;a=b;c\r\n{}\r\n0\r\n\r\n"),
    "trailers": _chunks(b"2\r\n{}\r\n0\r\nX: y\r\n\r\n"),
    "empty lines before it": b"\r\n\r\n" + _sized(b"Content-Length: 2"),
}
