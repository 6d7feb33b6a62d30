"""Transports: what answers `execute(operation, request)`.

base.py         the protocols, the capabilities, the limits
endpoints.py    a URL's meaning
embedded.py     the engine in this process
http.py         the thin client, for any endpoint
async_http.py   the same for asyncio
messages.py     calls to bytes, bytes to answers, without I/O
network.py      proxies and TLS, and the errors of the network
credentials.py  who signs, and how
remote_changes.py  waiting for others' writes at a Penstock server
boto.py         the same call through boto3, as the reference
"""

from __future__ import annotations

from penstock.client.transports.base import DEFAULT_LIMITS, STREAMS_OPERATIONS, AsyncTransport, Limits, Transport

__all__ = ["DEFAULT_LIMITS", "STREAMS_OPERATIONS", "AsyncTransport", "Limits", "Transport"]
