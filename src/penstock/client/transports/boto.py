"""The same call through a real boto3 client: the reference that the thin client is held against.

boto3 finds credentials and endpoint, signs, sends and receives. The body is ours, and the answer is read from the bytes
that came, so that both transports speak DynamoDB's JSON and nothing is lost between two notations.
"""

from __future__ import annotations

import threading
from typing import Any

from penstock.client.transports import network
from penstock.client.transports.base import DEFAULT_LIMITS, STREAMS_OPERATIONS, Answer, Capabilities, Limits, Request
from penstock.client.transports.credentials import FixedCredentials, credentials_for
from penstock.client.transports.endpoints import Endpoint
from penstock.client.transports.messages import Messages, Response
from penstock.errors import (
    BadAnswer,
    ConnectionFailed,
    CredentialsMissing,
    TimedOut,
    TlsFailed,
    TransportError,
    UnknownOperationException,
)

_SEARCH = "dynamodb, searched"
"""SearchVectors has hosts of its own at AWS."""


def _service(operation: str) -> str:
    if operation == "SearchVectors":
        return _SEARCH
    return "dynamodbstreams" if operation in STREAMS_OPERATIONS else "dynamodb"


class BotoTransport:
    """Calls one endpoint through boto3, without its retries. Safe to share between threads."""

    def __init__(self, endpoint: Endpoint, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self.name = endpoint.name
        self.endpoint = endpoint
        self.capabilities = Capabilities(local_order=not endpoint.is_amazons, tells_settings=endpoint.is_amazons)
        self._limits = limits
        self._messages = Messages(endpoint)
        self._call = _Call()
        self._making = threading.Lock()
        self._clients: dict[str, Any] = {}
        self._closed = False

    def execute(self, operation: str, request: Request) -> Answer:
        if self._closed:
            raise network.closed(self.name)
        try:
            client = self._client(_service(operation))
        except Exception as error:
            raise self._failure(error) from error
        if operation not in client.meta.service_model.operation_names:
            raise UnknownOperationException(f"{operation[:100]!r} is no operation")
        self._call.body = self._messages.body(request)
        self._call.response = None
        try:
            client._make_api_call(operation, _stand_ins(client.meta.service_model.operation_model(operation)))
        except Exception as error:
            if self._call.response is None:  # otherwise it is DynamoDB's own error, read below like everything else
                raise self._failure(error) from error
        assert self._call.response is not None
        if not self._call.whole:
            raise network.half_answer(self.name, begun=True)
        return self._messages.answer(operation, self._call.response)

    def _client(self, service: str) -> Any:
        with self._making:
            if service not in self._clients:
                self._clients[service] = self._make_client(service)
            return self._clients[service]

    def _make_client(self, service: str) -> Any:
        import boto3.session
        from botocore.config import Config

        limits = self._limits
        config = Config(
            retries={"mode": "standard", "total_max_attempts": 1},
            parameter_validation=False,  # the parameters are in the body
            max_pool_connections=limits.connections,
            connect_timeout=limits.connect_seconds,
            read_timeout=limits.read_seconds,
            tcp_keepalive=True,
        )
        hosts = {"dynamodbstreams": self.endpoint.streams, _SEARCH: self.endpoint.search}
        host = hosts.get(service, self.endpoint.host)
        keys: Any = self._keys()
        make: Any = boto3.session.Session(profile_name=self.endpoint.profile).client
        named = "dynamodb" if service == _SEARCH else service
        client = make(named, region_name=self.endpoint.region, endpoint_url=host.url, config=config, **keys)
        event = client.meta.service_model.service_id.hyphenize()
        client.meta.events.register(f"before-call.{event}", self._before_call)
        client.meta.events.register(f"before-parse.{event}", self._before_parse)
        return client

    def _keys(self) -> dict[str, str | None]:
        """What boto3 is told outright; at AWS nothing, since its own chain is the one we use too."""
        source = credentials_for(self.endpoint)
        if not isinstance(source, FixedCredentials):
            return {}
        key, secret, token = source.current()
        return {"aws_access_key_id": key, "aws_secret_access_key": secret, "aws_session_token": token}

    def _before_call(self, params: dict[str, Any], **_: Any) -> None:
        params["body"] = self._call.body

    def _before_parse(self, response_dict: dict[str, Any], **_: Any) -> None:
        """Keeps the answer as it came; whether botocore can make anything of it does not matter after this."""
        headers = {name.lower().encode(): text.encode("latin-1") for name, text in response_dict["headers"].items()}
        body: bytes = response_dict["body"]
        length = headers.get(b"content-length", b"")
        self._call.whole = not length.isdigit() or len(length) > 18 or int(length) == len(body)
        self._call.response = Response(response_dict["status_code"], headers, body, True)

    def _failure(self, error: Exception) -> TransportError:
        return failure_of(self.name, error, self._limits)

    def close(self) -> None:
        self._closed = True
        for client in self._clients.values():
            client.close()


class _Call(threading.local):
    """The call that this thread is making: what it sends, and what came."""

    body: bytes = b""
    response: Response | None = None
    whole: bool = True


def _stand_ins(operation: Any) -> dict[str, Any]:
    """Parameters for botocore to choose an endpoint by: it looks into maps and lists, and cannot bear their absence."""
    shape = operation.input_shape
    empty: dict[str, Any] = {"map": {}, "list": []}
    members = shape.members.items() if shape else ()
    return {name: empty[member.type_name] for name, member in members if member.type_name in empty}


def failure_of(name: str, error: Exception, limits: Limits = DEFAULT_LIMITS) -> TransportError:
    """botocore's error as one of ours; what is not about the transport comes back as BadAnswer."""
    from botocore import exceptions as theirs

    text = str(error)[:300]
    match error:
        case theirs.NoCredentialsError() | theirs.PartialCredentialsError() | theirs.CredentialRetrievalError():
            return CredentialsMissing(name, text, "Sign in (aws sso login) or set AWS_ACCESS_KEY_ID.")
        case theirs.ProfileNotFound() | theirs.TokenRetrievalError() | theirs.SSOError():
            return CredentialsMissing(name, text, "Check AWS_PROFILE; sign in (aws sso login).")
        case theirs.SSLError():
            return TlsFailed(name, text, "Set AWS_CA_BUNDLE to its authority's certificate, or check the host's name.")
        case theirs.ReadTimeoutError():
            return network.late(name, limits.read_seconds, False)
        case theirs.ConnectTimeoutError():
            return TimedOut(name, text, "Check network and firewall.")
        case theirs.EndpointConnectionError() | theirs.ProxyConnectionError():
            return ConnectionFailed(name, text, "Start the server, or check the URL.")
        case theirs.ConnectionClosedError() | theirs.ConnectionError():
            return ConnectionFailed(name, text, network.REPEAT_WITH_CARE, sent=True)
    return BadAnswer(name, f"{type(error).__name__}: {text}", network.REPEAT_WITH_CARE, sent=True)
