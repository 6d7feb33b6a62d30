"""Secrets are in no text that is made of what holds them: logs, tracebacks and debuggers show such texts."""

from __future__ import annotations

import io
import logging
import threading
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, Literal

import pytest

from penstock.client.database import Database, connect
from penstock.client.transports.credentials import Credentials, Signer
from penstock.client.wrappers.recording import Recording
from penstock.errors import PenstockError
from penstock.server.server import Options

SECRET, TOKEN = "wJalrXUtnFEMI/K7MDENG", "FwoGZXIvYXdzEPT"


def test_credentials_are_shown_by_their_key_alone() -> None:
    held = Credentials("AKIAEXAMPLE", SECRET, TOKEN)
    signer = Signer("localhost", "us-east-1")
    signer.headers("DynamoDB_20120810.GetItem", b"{}", 0.0, held)
    for shown in (
        repr(held),
        str(held),
        f"{held}",
        repr([held]),
        repr(signer._day),
        repr(Options(secrets={"A": SECRET})),
    ):
        assert SECRET not in shown
        assert TOKEN not in shown
    assert "AKIAEXAMPLE" in repr(held)


def test_a_call_that_fails_tells_no_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither its error, nor its traceback, nor what is logged or recorded of it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    told = io.StringIO()
    with caplog.at_level(logging.DEBUG, logger="penstock"):
        transport = Recording(connect("http://127.0.0.1:9", retries=None).transport, tmp_path / "calls.jsonl")
        try:
            Database(transport).execute("ListTables", {})
        except PenstockError:
            traceback.print_exc(file=told)
        finally:
            transport.close()
    everything = told.getvalue() + caplog.text + (tmp_path / "calls.jsonl").read_text()
    assert "127.0.0.1:9" in everything
    assert SECRET not in everything
    assert TOKEN not in everything


class _Redirecting(BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.asked.append(self.path)
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(307)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Prints nothing."""


@pytest.mark.parametrize("via", ["thin", "boto"])
def test_a_signed_request_follows_no_redirect(monkeypatch: pytest.MonkeyPatch, via: Literal["thin", "boto"]) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    _Redirecting.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Redirecting)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        with (
            connect(f"http://127.0.0.1:{server.server_port}", retries=None, via=via) as db,
            pytest.raises(PenstockError),
        ):
            db.execute("ListTables", {})
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert _Redirecting.asked == ["/"]


def test_a_url_with_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(PenstockError) as caught:
        connect(f"http://user:{TOKEN}@localhost:8000")
    assert TOKEN not in str(caught.value)
