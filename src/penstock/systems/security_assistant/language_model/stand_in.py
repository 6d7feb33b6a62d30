"""A stand-in for a language model's endpoint, on loopback: it answers questions about a document.

It reads requests and writes replies as an OpenAI-compatible endpoint does, and finds its answers by the rules of the
reader that ships. The demo asks it, so that the demo needs no model and no key.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import orjson

from penstock.systems.security_assistant.context_document.requirements import context_of

MODEL: Final = "stand-in"
_POLL_SECONDS: Final = 0.01
_MOST_BYTES: Final = 1_000_000
_CHARACTERS_A_TOKEN: Final = 4


@contextmanager
def stand_in_endpoint() -> Iterator[str]:
    """Serves for the length of a block; the URL that stands before `/chat/completions`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    timeout = 5.0

    def do_POST(self) -> None:
        request = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), _MOST_BYTES))
        reply = orjson.dumps(_completion(orjson.loads(request)))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing."""


def _completion(request: dict[str, Any]) -> dict[str, Any]:
    """The reply to a question about a document, whose text is between <data> and </data>."""
    asked = str(request["messages"][-1]["content"])
    found = context_of(asked.partition("<data>")[2].partition("</data>")[0])
    facts = [{"name": name, "value": value} for name, value in found.facts.items()]
    text = orjson.dumps({"facts": facts, "requirements": list(found.requirements)}).decode()
    used, given = (len(one) // _CHARACTERS_A_TOKEN for one in (asked, text))
    return {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": used, "completion_tokens": given, "total_tokens": used + given},
    }
