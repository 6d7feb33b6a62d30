"""The thin client: DynamoDB's JSON protocol to any endpoint, signed, on pooled connections."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from penstock.client.transports.base import DEFAULT_LIMITS, Answer, Capabilities, Limits, Request
from penstock.client.transports.connections import Pool
from penstock.client.transports.credentials import CredentialSource, credentials_for
from penstock.client.transports.endpoints import Endpoint
from penstock.client.transports.messages import Lane, Messages, renewed
from penstock.client.transports.responses import Response
from penstock.client.transports.routes import Route
from penstock.client.transports.signing import Credentials

P = TypeVar("P", bound="Closing")


class Closing(Protocol):
    def close(self) -> None: ...


class RemoteState(Generic[P]):
    """What the transports to an endpoint have in common: all but the waiting."""

    def __init__(
        self,
        endpoint: Endpoint,
        pool: Callable[[str, Route, Limits], P],
        credentials: CredentialSource | None,
        limits: Limits,
        now: Callable[[], float],
    ) -> None:
        self.name = endpoint.name
        self.endpoint = endpoint
        self.capabilities = Capabilities(local_order=not endpoint.is_amazons)
        self._credentials = credentials or credentials_for(endpoint)
        self._messages = Messages(endpoint, now)
        items, streams = self._messages.items, self._messages.streams
        self._pools = {items: pool(self.name, items.route, limits)}
        same = endpoint.streams == endpoint.host
        self._pools[streams] = self._pools[items] if same else pool(self.name, streams.route, limits)

    def _close_pools(self) -> None:
        for pool in self._pools.values():
            pool.close()


class RemoteTransport(RemoteState[Pool]):
    """Calls one endpoint: one request a call, and another if a wrong clock or expired credentials were put right."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        credentials: CredentialSource | None = None,
        limits: Limits = DEFAULT_LIMITS,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(endpoint, Pool, credentials, limits, now)

    def execute(self, operation: str, request: Request) -> Answer:
        messages = self._messages
        lane = messages.lane(operation)
        body = messages.body(request)
        credentials, skew = self._credentials.current(), messages.skew_seconds
        response = self._exchange(lane, operation, body, credentials)
        if response.status != 200 and self._put_right(response, credentials, skew):
            response = self._exchange(lane, operation, body, self._credentials.current())
        return messages.answer(operation, response)

    def _exchange(self, lane: Lane, operation: str, body: bytes, credentials: Credentials) -> Response:
        return self._pools[lane].exchange(self._messages.message(lane, operation, body, credentials))

    def _put_right(self, response: Response, credentials: Credentials, skew_seconds: float) -> bool:
        trouble = self._messages.trouble(response, skew_seconds)
        return trouble == "clock" or (trouble == "expired" and renewed(self._credentials, credentials))

    def close(self) -> None:
        """Closes the connections; calls that are under way end as they would."""
        self._close_pools()
