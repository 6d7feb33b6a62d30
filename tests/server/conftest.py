from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from raw_http import EchoEngine, RawClient

from penstock.server import http1, request_reader
from penstock.server import server as run
from penstock.server.server import ServerThread, running_server


@pytest.fixture(params=["fast", "neither"])
def echo_server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerThread]:
    """A server of an EchoEngine: once on uvloop and httptools, once as it is where neither is installed."""
    if request.param == "neither":
        monkeypatch.setattr(run, "new_loop", asyncio.new_event_loop)
        monkeypatch.setattr(request_reader, "_Parser", http1.H11Parser)
        monkeypatch.setattr(request_reader, "_ParserError", http1.ParserError)
    with running_server(EchoEngine()) as server:
        yield server


@pytest.fixture
def client(echo_server: ServerThread) -> Iterator[RawClient]:
    with RawClient(echo_server.url) as client:
        yield client


@pytest.fixture
def engine(echo_server: ServerThread) -> EchoEngine:
    engine = echo_server.engine
    assert isinstance(engine, EchoEngine)
    return engine
