"""The way to a host, straight or through a proxy, in the open or by TLS; and the errors of what goes wrong on it.

HTTPS_PROXY, HTTP_PROXY and NO_PROXY are read as everywhere; nobody goes to this machine itself by a proxy.
AWS_CA_BUNDLE names the certificate authorities to trust instead of the system's.
"""

from __future__ import annotations

import errno
import http.client
import os
import re
import socket
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from penstock.client.transports.endpoints import Host
from penstock.errors import BadAnswer, BadUrl, ConnectionFailed, TimedOut, TlsFailed, TransportClosed, TransportError

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
    if not url or _bypasses_proxy(host, environment.get("no_proxy", environment.get("NO_PROXY", ""))):
        return None
    return _proxy(url)


def _bypasses_proxy(host: Host, exceptions: str) -> bool:
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


def unreachable(name: str, route: Route, error: BaseException | None) -> TransportError:
    """No connection could be made."""
    where = f"the proxy {route.proxy.name}" if route.proxy else f"{route.host.host} port {route.host.port}"
    match error:
        case ssl.SSLError():
            return _tls(name, error)
        case socket.gaierror():
            host = route.proxy.host if route.proxy else route.host.host
            return ConnectionFailed(name, f"there is no host {host!r} ({error.strerror})", _check_name(name))
        case TimeoutError():
            return TimedOut(name, f"{where} did not accept a connection in time", "Check network and firewall.")
        case OSError() if _is_refused(error):
            return ConnectionFailed(name, f"nothing listens at {where}", _start(name, route))
        case OSError() if str(error).startswith("Tunnel connection failed"):
            return ConnectionFailed(name, f"{where} refused a tunnel ({error})", "Check HTTPS_PROXY and NO_PROXY.")
        case OSError() | http.client.HTTPException():
            return ConnectionFailed(name, f"{where} cannot be reached ({_brief(error)})", _check_address(route))
    return ConnectionFailed(name, f"{where} cannot be reached ({_brief(error)})", _check_address(route))


def _is_refused(error: OSError) -> bool:
    """Whether every address refused; asyncio tells of several only in the text of one error."""
    numbers = set(re.findall(r"\[Errno (\d+)\]", str(error))) if error.errno is None else {str(error.errno)}
    return numbers == {str(errno.ECONNREFUSED)}


def _check_name(name: str) -> str:
    what = "the region's name" if name.startswith("aws://") else "the host's name"
    return f"Check {what}, and that this machine can resolve names."


def _start(name: str, route: Route) -> str:
    if route.proxy:
        return "Check HTTP_PROXY, HTTPS_PROXY and NO_PROXY."
    return f"Start the server (penstock serve --port {route.host.port}), or check the port."


def _check_address(route: Route) -> str:
    return "Check HTTPS_PROXY and the network." if route.proxy else "Check the URL and the network."


def _tls(name: str, error: ssl.SSLError) -> TlsFailed:
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsFailed(
            name,
            f"its certificate is not trusted ({error.verify_message})",
            "Set AWS_CA_BUNDLE to the file of its authority's certificate, or check the host's name.",
        )
    if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return TlsFailed(name, "what listens there does not speak TLS", "Write http:// instead of https://.")
    return TlsFailed(name, f"no secure connection could be agreed on ({_brief(error)})", "Check port and server.")


def not_sent(name: str, error: BaseException | None) -> TransportError:
    """A new connection broke, or stood still, before the request had left whole: it had no effect."""
    if isinstance(error, TimeoutError):
        return TimedOut(name, "the server did not take the request in time", "Check the server and the network.")
    return ConnectionFailed(name, f"the server closed the connection ({_brief(error)})", "Repeat the call.")


def not_read(name: str, error: OSError, seconds: float, begun: bool) -> TransportError:
    """The request left; its answer did not come."""
    if isinstance(error, TimeoutError):
        return late(name, seconds, begun)
    if isinstance(error, ssl.SSLError):
        return BadAnswer(name, f"the secure connection broke ({_brief(error)})", REPEAT_WITH_CARE, sent=True)
    if begun:
        return half_answer(name, begun)
    return ConnectionFailed(
        name, f"the connection broke before an answer came ({_brief(error)})", REPEAT_WITH_CARE, sent=True
    )


REPEAT_WITH_CARE = "It may have been carried out: repeat it if that does no harm, or read first."


def late(name: str, seconds: float, begun: bool) -> TimedOut:
    what = "only part of an answer" if begun else "no answer"
    return TimedOut(name, f"{what} came within {seconds:g} s", REPEAT_WITH_CARE, sent=True)


def half_answer(name: str, begun: bool) -> TransportError:
    if begun:
        return BadAnswer(name, "the connection ended in the middle of an answer", REPEAT_WITH_CARE, sent=True)
    return ConnectionFailed(name, "the connection ended before an answer came", REPEAT_WITH_CARE, sent=True)


def malformed(name: str, error: Exception) -> BadAnswer:
    return BadAnswer(name, f"what came is not an HTTP answer ({error})", f"Is {name} a DynamoDB endpoint?", sent=True)


def busy(name: str, connections: int, seconds: float) -> TimedOut:
    return TimedOut(
        name,
        f"all {connections} connections were busy for {seconds:g} s",
        "Make fewer calls at once, or allow more connections with Limits(connections=…).",
    )


def closed(name: str) -> TransportClosed:
    return TransportClosed(name, "the database has been closed", "Open it again with connect().")


def _brief(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}"[:300] if str(error or "") else type(error).__name__
