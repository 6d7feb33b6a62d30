"""The way to a host: straight or through a proxy, in the open or by TLS.

HTTPS_PROXY, HTTP_PROXY and NO_PROXY are read as everywhere; nobody goes to this machine itself by a proxy.
AWS_CA_BUNDLE names the certificate authorities to trust instead of the system's.
"""

from __future__ import annotations

import http.client
import os
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from penstock.client.transports.endpoints import Host
from penstock.errors import BadUrl, TlsFailed

if TYPE_CHECKING:
    import socket

_LOOPBACK = ("localhost", "127.", "::1")


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy and the header that it wants to know us by."""

    host: str
    port: int
    authorization: str | None = None

    @property
    def name(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Route:
    """How connections to one host are made."""

    host: Host
    proxy: Proxy | None = None
    context: ssl.SSLContext | None = None

    @classmethod
    def to(cls, name: str, host: Host, environment: Mapping[str, str] | None = None) -> Route:
        """The route that the environment asks for; raises BadUrl or TlsFailed if what it names is no use."""
        given = os.environ if environment is None else environment
        return cls(host, proxy_for(host, given), tls_context(name, given) if host.secure else None)

    @property
    def first_line(self) -> str:
        """A proxy of a plain endpoint is told the whole URL; everybody else the path."""
        whole = self.proxy is not None and not self.host.secure
        return f"POST {f'http://{self.host.authority}' if whole else ''}{self.host.path} HTTP/1.1"

    @property
    def proxy_header(self) -> str:
        """For each request to a plain endpoint's proxy; a tunnel's is said once."""
        if self.proxy is None or self.host.secure or self.proxy.authorization is None:
            return ""
        return f"Proxy-Authorization: {self.proxy.authorization}\r\n"

    @property
    def tunnel_message(self) -> bytes:
        """What asks a proxy for a tunnel to the host."""
        assert self.proxy is not None
        host = f"[{self.host.host}]" if ":" in self.host.host else self.host.host
        target = f"{host}:{self.host.port}"
        header = f"Proxy-Authorization: {self.proxy.authorization}\r\n" if self.proxy.authorization else ""
        return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{header}\r\n".encode()

    def dial(self, seconds: float) -> socket.socket:
        """A connected socket, after tunnel and handshake; raises what socket, ssl and http.client raise."""
        host, port = (self.proxy.host, self.proxy.port) if self.proxy else (self.host.host, self.host.port)
        made: http.client.HTTPConnection
        if self.context is None:
            made = http.client.HTTPConnection(host, port, timeout=seconds)
        else:
            made = http.client.HTTPSConnection(host, port, timeout=seconds, context=self.context)
            if self.proxy is not None:
                header = self.proxy.authorization
                made.set_tunnel(
                    self.host.host, self.host.port, {"Proxy-Authorization": header} if header is not None else {}
                )
        try:
            made.connect()
        except BaseException:
            made.close()
            raise
        return made.sock


def proxy_for(host: Host, environment: Mapping[str, str]) -> Proxy | None:
    """The proxy between us and `host`, if any."""
    if host.host.startswith(_LOOPBACK):
        return None
    # As everywhere, the small letters win; HTTP_PROXY in capitals may come from a web request's "Proxy:" header.
    scheme = "https" if host.secure else "http"
    capitals = f"{scheme.upper()}_PROXY" if host.secure or "REQUEST_METHOD" not in environment else ""
    url = environment.get(f"{scheme}_proxy", environment.get(capitals, ""))
    if not url or _excepted(host, environment.get("no_proxy", environment.get("NO_PROXY", ""))):
        return None
    return _proxy(url)


def _excepted(host: Host, exceptions: str) -> bool:
    if not exceptions:
        return False
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # costly, and seldom needed

    return bool(proxy_bypass_environment(f"{host.host}:{host.port}", {"no": exceptions}))


def _proxy(url: str) -> Proxy:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or 80
    except ValueError as error:
        raise BadUrl(url, f"the proxy's URL cannot be read ({error})", "Write it as http://host:port.") from None
    if parts.scheme != "http" or not parts.hostname:
        shown = url.rpartition("@")[2]
        raise BadUrl(shown, "a proxy is reached by http://", "Set HTTPS_PROXY to http://host:port.")
    authorization = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + b64encode(pair.encode()).decode("ascii")
    return Proxy(parts.hostname, port, authorization)


def tls_context(name: str, environment: Mapping[str, str]) -> ssl.SSLContext:
    """Verifies certificates and names, always."""
    bundle = environment.get("AWS_CA_BUNDLE") or None
    try:
        return _context(bundle)
    except (OSError, ssl.SSLError) as error:
        raise TlsFailed(
            name, f"AWS_CA_BUNDLE={bundle} cannot be read ({error})", "Name a file of PEM certificates, or unset it."
        ) from error


@lru_cache(maxsize=8)
def _context(bundle: str | None) -> ssl.SSLContext:
    """Kept: loading the system's authorities takes some 20 ms."""
    context = ssl.create_default_context(cafile=bundle)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
