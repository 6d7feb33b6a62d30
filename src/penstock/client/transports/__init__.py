"""Transports: what answers `execute(operation, request)`.

base.py               the protocols, and the limits
embedded.py           the engine in this process
remote.py             the thin client, for any endpoint; asynchronous.py the same for asyncio
clients.py               the same call through boto3, as the reference
messages.py           calls to bytes and responses to answers, without I/O
responses.py          bytes to responses, without I/O
routes.py             proxies and TLS
async_connections.py  asyncio's pool; the threads' is ../connections.py
failures.py           the words for what goes wrong in between
"""

from __future__ import annotations

from penstock.client.transports.base import DEFAULT_LIMITS, STREAMS_OPERATIONS, AsyncTransport, Limits, Transport

__all__ = ["DEFAULT_LIMITS", "STREAMS_OPERATIONS", "AsyncTransport", "Limits", "Transport"]
