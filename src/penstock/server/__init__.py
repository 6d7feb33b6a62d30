"""The engine behind DynamoDB's HTTP protocol, so that every AWS SDK, CLI and GUI works with it.

The life of a request, one file a step:

    request_reader.py        bytes of one connection → requests
    known_heads.py          heads that have come before, which need no parsing
    connection.py       one connection: what a request asks for, and how long its client may take
    call_order.py      its calls in order, its answers in order
    http1.py          the HTTP/1.1 parser: httptools where installed, ours where not
    routing.py        which operation is meant, or which refusal DynamoDB would give
    origins.py        which web pages may call
    authorization.py  the form of the Authorization header or query
    signature.py      AWS Signature Version 4, checked when keys are configured
    encodings.py      gzip and deflate, both ways, within limits
    group_commit.py         requests that arrived together share one transaction
    connection_limits.py          how many connections there may be, what they may hold, and who must go
    replies.py        status line, headers, checksum
    server.py            start and stop, in the foreground or in a thread
"""

from penstock.server.server import AddressError, Options, ServerThread, listen, running_server, serve

__all__ = ["AddressError", "Options", "ServerThread", "listen", "running_server", "serve"]
