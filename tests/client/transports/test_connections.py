"""The pool: keep-alive, limits, age, closed connections, proxies, TLS; for threads and for asyncio alike."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import ssl
import subprocess
import threading
import time
from contextlib import suppress

import pytest
from fake_endpoint import AMPLE, GET, KINDS, always, answer, calling, endpoint_of, fake

from penstock.client.transports import http, messages, network
from penstock.client.transports.async_http import AsyncRemoteTransport
from penstock.client.transports.base import Limits
from penstock.client.transports.http import RemoteTransport
from penstock.errors import ConnectionFailed, TimedOut, TlsFailed, TransportClosed, TransportError


@pytest.fixture(params=list(KINDS))
def kind(request):
    return KINDS[request.param]


@pytest.fixture(params=["httptools", "http.client"])
def reader(request, monkeypatch):
    if request.param == "http.client":
        monkeypatch.setattr(messages, "_KIND", messages.PlainReader)


# ── keep-alive ───────────────────────────────────────────────────────────────────────────────────


def test_calls_one_after_another_share_a_connection(kind, reader):
    with fake(always(answer({"Item": {}}))) as server, calling(kind, server.url) as transport:
        for _ in range(5):
            assert transport.execute(*GET) == {"Item": {}}
        assert len(server.connections) == 1


def test_a_connection_that_the_server_closed_while_it_rested_is_replaced(kind):
    def script(incoming):
        incoming.read_request()
        incoming.send(answer())

    with fake(script) as server, calling(kind, server.url) as transport:
        for count in range(3):
            transport.execute(*GET)
            until(lambda count=count: closed_by_server(server, count))
        assert len(server.connections) == 3


def closed_by_server(server, number):
    return len(server.connections) > number and server.connections[number].sock.fileno() == -1


def test_connection_close_is_obeyed(kind, reader):
    with fake(always(answer(connection="close"))) as server, calling(kind, server.url) as transport:
        transport.execute(*GET)
        transport.execute(*GET)
        assert len(server.connections) == 2


def test_what_comes_unasked_ends_the_connection(kind, reader):
    with fake(always(answer() + answer({"Item": {"id": {"S": "not yours"}}}))) as server:
        with calling(kind, server.url) as transport:
            assert transport.execute(*GET) == {}
            assert transport.execute(*GET) == {}
        assert len(server.connections) == 2


def test_a_connection_that_rested_too_long_is_not_used(kind):
    limits = Limits(idle_seconds=0.05, read_seconds=20)
    with fake(always(answer())) as server, calling(kind, server.url, limits) as transport:
        transport.execute(*GET)
        time.sleep(0.06)
        transport.execute(*GET)
        assert len(server.connections) == 2


class SetTime:
    """The time of a module, which only a test moves."""

    now = 100.0

    def monotonic(self):
        return self.now


def test_the_connection_that_rested_last_is_used_first_and_old_ones_are_closed(monkeypatch):
    gate = threading.Barrier(3)

    def script(incoming):
        incoming.read_request()
        gate.wait(60)
        incoming.send(answer())
        always(answer())(incoming)

    clock = SetTime()
    monkeypatch.setattr(http, "time", clock)
    limits = Limits(idle_seconds=10, read_seconds=20)
    with fake(script) as server, calling(RemoteTransport, server.url, limits) as transport:
        threads = [threading.Thread(target=transport.execute, args=GET) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for _ in range(15):
            transport.execute(*GET)
            clock.now += 1
        assert len(server.connections) == 3
        until(lambda: sum(one.sock.fileno() == -1 for one in server.connections) == 2)


def test_a_request_is_not_sent_again_when_it_may_have_been_carried_out(kind):
    def script(incoming):
        incoming.read_request()
        incoming.send(answer())
        incoming.read_request()  # and no answer to the second

    with fake(script) as server, calling(kind, server.url) as transport:
        transport.execute(*GET)
        with pytest.raises(ConnectionFailed) as failed:
            transport.execute(*GET)
        assert failed.value.sent
        assert len(server.connections) == 1


def test_a_request_that_did_not_leave_whole_is_sent_again_on_a_new_connection(monkeypatch):
    """The system refuses the bytes: the server closed between our look and our sending."""
    from penstock.client.transports.http import Connection

    def script(incoming):
        incoming.read_request()
        incoming.send(answer())
        if incoming.number:
            always(answer())(incoming)
        else:
            incoming.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # close by RST

    def looked_too_early(connection):
        until(lambda: any(events & (select.POLLHUP | select.POLLERR) for _, events in connection._poll.poll(0)))
        return True

    with fake(script) as server, calling(RemoteTransport, server.url) as transport:
        transport.execute(*GET)
        monkeypatch.setattr(Connection, "alive", looked_too_early)
        assert transport.execute(*GET) == {}
        assert len(server.connections) == 2


# ── limits ───────────────────────────────────────────────────────────────────────────────────────


def test_never_more_connections_than_allowed_are_open():
    limits = Limits(connections=3, read_seconds=5, pool_seconds=5)
    with fake(always(answer())) as server, calling(RemoteTransport, server.url, limits) as transport:
        done = []

        def work():
            for _ in range(20):
                done.append(transport.execute(*GET))

        threads = [threading.Thread(target=work) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(done) == 240
        assert len(server.connections) <= 3


def test_never_more_connections_than_allowed_are_open_in_asyncio():
    async def work(url):
        transport = AsyncRemoteTransport(endpoint_of(url), limits=Limits(connections=3, read_seconds=5, pool_seconds=5))
        answers = await asyncio.gather(*(transport.execute(*GET) for _ in range(200)))
        await transport.close()
        return answers

    with fake(always(answer())) as server:
        assert asyncio.run(work(server.url)) == [{}] * 200
        assert len(server.connections) <= 3


def test_waiting_for_a_connection_ends_in_time():
    over = threading.Event()

    def script(incoming):
        incoming.read_request()
        over.wait(20)
        incoming.send(answer())

    limits = Limits(connections=1, pool_seconds=0.05, read_seconds=20)
    with fake(script) as server, calling(RemoteTransport, server.url, limits) as transport:
        busy = threading.Thread(target=transport.execute, args=GET)
        busy.start()
        until(lambda: server.connections)
        with pytest.raises(TimedOut, match="all 1 connections were busy") as late:
            transport.execute(*GET)
        assert not late.value.sent
        over.set()
        busy.join()


def test_waiting_for_a_connection_ends_in_time_in_asyncio():
    over = threading.Event()

    def script(incoming):
        incoming.read_request()
        over.wait(20)
        incoming.send(answer())

    async def work(url):
        limits = Limits(connections=1, pool_seconds=0.05, read_seconds=20)
        transport = AsyncRemoteTransport(endpoint_of(url), limits=limits)
        calls = [asyncio.create_task(transport.execute(*GET)) for _ in range(2)]
        await asyncio.wait(calls[1:])
        over.set()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        await transport.close()
        return outcomes

    with fake(script) as server:
        first, second = asyncio.run(work(server.url))
    assert first == {}
    assert isinstance(second, TimedOut)
    assert not second.sent


def test_a_cancelled_call_leaves_no_answer_for_the_next():
    cancelled = threading.Event()

    def script(incoming):
        incoming.read_request()
        if incoming.number == 0:
            cancelled.wait(20)
        incoming.send(answer({"Item": {"connection": {"N": str(incoming.number)}}}))

    async def work(url):
        transport = AsyncRemoteTransport(endpoint_of(url), limits=Limits(connections=1, read_seconds=20))
        with suppress(TimeoutError):
            await asyncio.wait_for(transport.execute(*GET), 0.05)
        cancelled.set()
        answered = await transport.execute(*GET)
        await transport.close()
        return answered

    with fake(script) as server:
        assert asyncio.run(work(server.url)) == {"Item": {"connection": {"N": "1"}}}


def test_an_async_transport_can_be_used_on_one_event_loop_after_another():
    with fake(always(answer())) as server:
        transport = AsyncRemoteTransport(endpoint_of(server.url), limits=AMPLE)
        for _ in range(2):
            assert asyncio.run(transport.execute(*GET)) == {}


def test_a_closed_transport_says_so(kind):
    with fake(always(answer())) as server:
        transport = kind(endpoint_of(server.url), limits=AMPLE)
        transport.execute(*GET)
        transport.close() if kind is RemoteTransport else transport._runner.run(transport.inner.close())
        with pytest.raises(TransportClosed, match="closed"):
            transport.execute(*GET)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_not_use_its_parents_connections():
    with fake(always(answer())) as server, calling(RemoteTransport, server.url) as transport:
        transport.execute(*GET)
        child = os.fork()
        if child == 0:
            os._exit(0 if transport.execute(*GET) == {} else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0
        transport.execute(*GET)
        assert len(server.connections) == 2


# ── addresses, TLS, proxies ──────────────────────────────────────────────────────────────────────


def test_an_ipv6_endpoint_is_reached(kind):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    with fake(always(answer()), host="::1") as server, calling(kind, server.url) as transport:
        assert transport.execute(*GET) == {}
        assert f"Host: [::1]:{server.port}".encode() in server.connections[0].request


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for localhost that nobody has signed but itself."""
    folder = tmp_path_factory.mktemp("tls")
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"), "-days", "2"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,DNS:db.example.org,IP:127.0.0.1"]
    try:
        subprocess.run(words, check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("openssl is not installed")
    return folder


@pytest.fixture
def server_context(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    return context


def test_tls_with_an_authority_that_the_environment_names(kind, certificate, server_context, monkeypatch):
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate / "cert.pem"))
    with fake(always(answer({"Item": {}})), context=server_context) as server, calling(kind, server.url) as transport:
        for _ in range(3):
            assert transport.execute(*GET) == {"Item": {}}
        assert len(server.connections) == 1


def test_a_certificate_that_nobody_vouches_for_is_refused(kind, server_context, monkeypatch):
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    with fake(always(answer()), context=server_context) as server, calling(kind, server.url) as transport:
        with pytest.raises(TlsFailed, match="not trusted") as failed:
            transport.execute(*GET)
        assert "AWS_CA_BUNDLE" in failed.value.next_step
        assert not failed.value.retryable


def test_tls_to_a_server_that_does_not_speak_it(kind):
    def script(incoming):
        incoming.sock.recv(1000)
        incoming.send(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")

    with fake(script) as server, calling(kind, server.url.replace("http", "https")) as transport:
        with pytest.raises(TlsFailed, match="does not speak TLS") as failed:
            transport.execute(*GET)
        assert "http://" in failed.value.next_step


def test_a_bundle_that_cannot_be_read_is_named(monkeypatch):
    monkeypatch.setenv("AWS_CA_BUNDLE", "/nowhere/bundle.pem")
    with pytest.raises(TlsFailed, match=r"/nowhere/bundle\.pem"):
        RemoteTransport(endpoint_of("https://localhost:1"))


def test_a_plain_endpoint_behind_a_proxy_is_asked_for_by_its_whole_url(kind, monkeypatch):
    with fake(always(answer())) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//us:pa%20ss@"))
        with calling(kind, "http://db.example.org:8000") as transport:
            assert transport.execute(*GET) == {}
        request = proxy.connections[0].request
        assert request.startswith(b"POST http://db.example.org:8000/ HTTP/1.1\r\nHost: db.example.org:8000\r\n")
        assert b"Proxy-Authorization: Basic dXM6cGEgc3M=\r\n" in request


def test_a_secure_endpoint_behind_a_proxy_is_reached_by_a_tunnel(kind, certificate, server_context, monkeypatch):
    def script(incoming):
        incoming.read_request()
        incoming.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        asked.append(incoming.request)
        incoming.sock = server_context.wrap_socket(incoming.sock, server_side=True)
        always(answer({"Item": {}}))(incoming)

    asked: list[bytes] = []
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate / "cert.pem"))
    with fake(script) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with calling(kind, "https://db.example.org") as transport:
            assert transport.execute(*GET) == {"Item": {}}
            assert transport.execute(*GET) == {"Item": {}}
    assert len(asked) == 1
    assert asked[0].startswith(b"CONNECT db.example.org:443 HTTP/1.")


def test_a_proxy_that_refuses_is_named(kind, monkeypatch):
    with fake(always(answer(status=407))) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with calling(kind, "https://db.example.org") as transport:
            with pytest.raises(ConnectionFailed, match=f"proxy 127.0.0.1:{proxy.port} refused a tunnel") as failed:
                transport.execute(*GET)
            assert not failed.value.sent


@pytest.mark.parametrize(
    ("url", "environment", "proxied"),
    [
        ("http://db.example.org", {"HTTP_PROXY": "http://p:1"}, True),
        ("http://db.example.org", {"HTTPS_PROXY": "http://p:1"}, False),
        ("https://db.example.org", {"HTTPS_PROXY": "p:1"}, True),
        ("https://db.example.org", {"HTTPS_PROXY": "http://p:1", "https_proxy": ""}, False),
        ("https://db.example.org", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "example.org"}, False),
        ("https://db.example.org", {"HTTPS_PROXY": "http://p:1", "no_proxy": "*"}, False),
        ("https://db.example.org:8443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "db.example.org:9"}, True),
        ("http://localhost:8000", {"HTTP_PROXY": "http://p:1"}, False),
        ("http://127.0.0.1:8000", {"HTTP_PROXY": "http://p:1"}, False),
        ("http://[::1]:8000", {"HTTP_PROXY": "http://p:1"}, False),
        ("http://db.example.org", {"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, False),
    ],
)
def test_which_endpoints_go_by_a_proxy(url, environment, proxied):
    assert (network.proxy_for(endpoint_of(url).host, environment) is not None) == proxied


@pytest.mark.parametrize("proxy", ["https://p:1", "socks5://p:1", "http://", "http://p:port"])
def test_a_proxy_that_we_cannot_use_is_refused(proxy):
    with pytest.raises(TransportError):
        network.proxy_for(endpoint_of("https://db.example.org").host, {"HTTPS_PROXY": proxy})


def until(true, seconds=3.0):
    """Waits for another thread to have done its part."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.002)
