"""From a URL's meaning to the transport that goes there."""

from __future__ import annotations

import os
from typing import Any, Literal

from penstock.client.transports import endpoints
from penstock.client.transports.base import DEFAULT_LIMITS, AsyncTransport, Limits, Transport
from penstock.client.transports.credentials import CredentialSource, profile_region
from penstock.client.transports.endpoints import Endpoint, File

Via = Literal["thin", "boto"]


def open_transport(
    url: str | os.PathLike[str],
    *,
    limits: Limits = DEFAULT_LIMITS,
    credentials: CredentialSource | None = None,
    via: Via = "thin",
    **engine_options: Any,
) -> Transport:
    """The transport to what `url` names; `engine_options` (clock, settings) are the embedded engine's.

    Nothing is connected yet: the first call finds out whether anybody answers.
    """
    target = endpoints.parse(os.fspath(url), region_of=profile_region)
    if isinstance(target, File):
        return _embedded(target, engine_options)
    return _remote(target, limits, credentials, via)


def open_async_transport(
    url: str | os.PathLike[str],
    *,
    limits: Limits = DEFAULT_LIMITS,
    credentials: CredentialSource | None = None,
    via: Via = "thin",
    **engine_options: Any,
) -> AsyncTransport:
    """The same for asyncio. Everything but the thin client runs in a few threads."""
    from penstock.client.transports.asynchronous import AsyncRemoteTransport, AsyncThreadedTransport

    target = endpoints.parse(os.fspath(url), region_of=profile_region)
    if isinstance(target, File):
        return AsyncThreadedTransport(_embedded(target, engine_options))
    if via == "boto":
        return AsyncThreadedTransport(_remote(target, limits, credentials, via), threads=limits.connections)
    return AsyncRemoteTransport(target, limits=limits, credentials=credentials)


def _embedded(target: File, options: dict[str, Any]) -> Transport:
    from penstock.client.transports.embedded import EmbeddedTransport
    from penstock.engine.engine import Engine

    given = {name: value for name, value in options.items() if value is not None}
    return EmbeddedTransport(Engine(target.path, **given), target.name)


def _remote(target: Endpoint, limits: Limits, credentials: CredentialSource | None, via: Via) -> Transport:
    if via == "boto":
        from penstock.client.transports.boto import BotoTransport

        return BotoTransport(target, limits=limits)
    from penstock.client.transports.remote import RemoteTransport

    return RemoteTransport(target, limits=limits, credentials=credentials)
