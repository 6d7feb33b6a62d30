"""Waiting for what others commit, at a server of Penstock's: one call that is answered when something has changed.

1. The call is an API call in all but its target: signed, and refused, like any other. Other endpoints answer that they
   know no such operation, and AWS is not asked.
2. It has a connection of its own: a call that waits takes none from those that do not.
3. Each answer has a version, which the next call names: what is committed between two calls ends the second at once. A
   server that was started again has other versions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from penstock.client.transports.base import DEFAULT_LIMITS
from penstock.client.transports.credentials import CredentialSource
from penstock.client.transports.endpoints import Endpoint
from penstock.client.transports.http import RemoteTransport
from penstock.client.transports.messages import WAIT_FOR_CHANGES
from penstock.errors import BadAnswer, DynamoDBError, NotDynamoDB

LONGEST_SECONDS: Final = 20.0
"""That a server lets a call wait."""
_POLL_SECONDS: Final = 15.0
# A server, or a network, that is gone without a word is noticed when an answer is late.
_LIMITS: Final = replace(DEFAULT_LIMITS, connections=1, read_seconds=LONGEST_SECONDS + 5.0)


class RemoteChanges:
    """Waits for changes of one server's database. For one thread, except `close`."""

    poll_seconds: Final = _POLL_SECONDS

    def __init__(self, endpoint: Endpoint, credentials: CredentialSource, now: Callable[[], float]) -> None:
        self._transport = RemoteTransport(endpoint, credentials=credentials, limits=_LIMITS, now=now)
        self._version: str | None = None

    def is_offered(self) -> bool:
        """Asks whether the endpoint tells of changes. Raises TransportError where nobody answers."""
        try:
            return isinstance(self._transport.execute(WAIT_FOR_CHANGES, {}).get("Version"), str)
        except (DynamoDBError, NotDynamoDB):
            return False

    def wait(self, seconds: float) -> bool:
        """See `Changes`. Returns sooner than asked for where the server lets nobody wait for so long."""
        request = {"WaitSeconds": min(seconds, LONGEST_SECONDS)}
        answer = self._transport.execute(
            WAIT_FOR_CHANGES, request if self._version is None else request | {"Since": self._version}
        )
        before, self._version = self._version, answer.get("Version")
        if not isinstance(self._version, str):
            raise BadAnswer(self._transport.name, "it does not tell of changes any more", "Check the server.")
        return before != self._version

    def close(self) -> None:
        self._transport.abort()
