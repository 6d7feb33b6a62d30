"""The engine behind DynamoDB's HTTP protocol, so that every AWS SDK, CLI and GUI works with it.

The life of a request, one file a step:

    server.py             start and stop, in the foreground or in a thread
    connection_limits.py  how many connections there may be, what they may hold, and who must go
    connection.py         one connection: its calls and answers in order, and how long its client may take
    request_reader.py     bytes of one connection → requests
    http1.py              the HTTP/1.1 parser: httptools where installed, h11 where not
    known_heads.py        heads that have come before, which need no parsing
    routing.py            which operation is meant, or which refusal DynamoDB would give; large bodies
    auth/                 origins, the Authorization header, signatures, the file of keys
    group_commit.py       requests that arrived together share one transaction
    change_waits.py       calls that wait until the database has changed
    replies.py            status line, headers, checksum; gzip and deflate, both ways, within limits
"""

from penstock.server.server import AddressError, Options, ServerThread, listen, running_server, serve

__all__ = ["AddressError", "Options", "ServerThread", "listen", "running_server", "serve"]
