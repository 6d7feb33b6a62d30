"""What goes wrong between us and an endpoint, as errors that name the endpoint, the reason and the next step."""

from __future__ import annotations

import errno
import http.client
import re
import socket
import ssl

from penstock.client.transports.responses import Malformed
from penstock.client.transports.routes import Route
from penstock.errors import BadAnswer, ConnectionFailed, TimedOut, TlsFailed, TransportClosed, TransportError


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
        case OSError() if _refused(error):
            return ConnectionFailed(name, f"nothing listens at {where}", _start(name, route))
        case OSError() if str(error).startswith("Tunnel connection failed"):
            return ConnectionFailed(name, f"{where} refused a tunnel ({error})", "Check HTTPS_PROXY and NO_PROXY.")
        case OSError() | http.client.HTTPException():
            return ConnectionFailed(name, f"{where} cannot be reached ({_brief(error)})", _check_address(route))
    return ConnectionFailed(name, f"{where} cannot be reached ({_brief(error)})", _check_address(route))


def _refused(error: OSError) -> bool:
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
        return BadAnswer(name, f"the secure connection broke ({_brief(error)})", _REPEAT, sent=True)
    if begun:
        return half_answer(name, begun)
    return ConnectionFailed(name, f"the connection broke before an answer came ({_brief(error)})", _REPEAT, sent=True)


_REPEAT = "It may have been carried out: repeat it if that does no harm, or read first."


def late(name: str, seconds: float, begun: bool) -> TimedOut:
    what = "only part of an answer" if begun else "no answer"
    return TimedOut(name, f"{what} came within {seconds:g} s", _REPEAT, sent=True)


def half_answer(name: str, begun: bool) -> TransportError:
    if begun:
        return BadAnswer(name, "the connection ended in the middle of an answer", _REPEAT, sent=True)
    return ConnectionFailed(name, "the connection ended before an answer came", _REPEAT, sent=True)


def malformed(name: str, error: Malformed) -> BadAnswer:
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
