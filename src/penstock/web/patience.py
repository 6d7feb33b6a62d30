"""How long a web server waits for its clients: uvicorn waits for ever for a request that does not come whole.

A connection counts against the limit of connections from its first moment. So one on which nothing has been asked for
`REQUEST_SECONDS`, or whose request's body has not arrived by then, is ended. What is being answered is left alone, for
however long: pages follow their jobs over one answer that does not end.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

REQUEST_SECONDS: Final = 20.0


def patient_protocol() -> type[asyncio.Protocol]:
    """uvicorn's protocol for HTTP/1.1, whichever is installed, that ends connections as said above."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol  # uvicorn is imported when it is used

    uvicorns: Any = AutoHTTPProtocol

    class PatientProtocol(uvicorns):  # type: ignore[misc]
        _seen: Any = None
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self._timer = self.loop.call_later(REQUEST_SECONDS, self._look)

        def connection_lost(self, exc: Exception | None) -> None:
            if self._timer is not None:
                self._timer.cancel()
            super().connection_lost(exc)

        def _look(self) -> None:
            """Every so often: has something been asked since the last look, and has all of it arrived?"""
            asked = self.cycle
            is_answering = asked is not None and not asked.response_complete and not asked.more_body
            if asked is self._seen and not is_answering:
                self.transport.abort()
                return
            self._seen = asked
            self._timer = self.loop.call_later(REQUEST_SECONDS, self._look)

    return PatientProtocol
