"""boto3 clients and resources that the embedded engine answers, without HTTP.

They are botocore's own objects: its paginators, waiters, exceptions, `Table` and event hooks work as ever.
One method differs, `_make_api_call`, through which every call passes.

1. No request leaves the process, and no AWS setting of the machine or its environment is read.
2. What the caller sees is what botocore shows of an HTTP answer: values, ResponseMetadata, ClientError.
3. botocore's events for a call are emitted in botocore's order, except those about HTTP: there is none.
"""

from __future__ import annotations

import json
import os
import threading
from functools import lru_cache
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Literal, overload

import boto3
import botocore.session
import orjson
from botocore.client import BaseClient
from botocore.config import Config
from botocore.hooks import first_non_none_response

from penstock.client.boto3.codec import Convert, Decoders, Encoders
from penstock.client.database import MEMORY, Database, connect
from penstock.client.transports import endpoints
from penstock.errors import DynamoDBError, PenstockError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient, DynamoDBServiceResource
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient

Openable = Database | str | os.PathLike[str]

_ENDPOINT = "http://penstock.invalid"  # a name that RFC 2606 keeps from ever resolving
_REGION = "us-east-1"
_JSON = "application/x-amz-json-1.0"


@overload
def boto3_client(
    path: Openable = ...,
    *,
    service: Literal["dynamodb"] = ...,
    region_name: str = ...,
    config: Config | None = ...,
) -> DynamoDBClient: ...
@overload
def boto3_client(
    path: Openable = ...,
    *,
    service: Literal["dynamodbstreams"],
    region_name: str = ...,
    config: Config | None = ...,
) -> DynamoDBStreamsClient: ...
def boto3_client(
    path: Openable = MEMORY,
    *,
    service: str = "dynamodb",
    region_name: str = _REGION,
    config: Config | None = None,
) -> Any:
    """A boto3 client of the database at `path`; `service="dynamodbstreams"` gives the client of its streams.

    Clients made from one `Database` share it. A client made from a path opens it; `client.close()` closes it.
    """
    if service not in _SERVICES:
        raise ValueError(f"service is one of {', '.join(_SERVICES)}; not {service!r}")
    with _making:
        make: Any = _session().client
        client = make(service, region_name=region_name, endpoint_url=_ENDPOINT, config=config)
    client._attach(path)
    return client


def boto3_resource(
    path: Openable = MEMORY, *, region_name: str = _REGION, config: Config | None = None
) -> DynamoDBServiceResource:
    """A boto3 DynamoDB resource of the database at `path`: `resource.Table("jobs").put_item(…)`."""
    with _making:
        make: Any = _session().resource
        resource = make("dynamodb", region_name=region_name, endpoint_url=_ENDPOINT, config=config)
    resource.meta.client._attach(path)
    return resource  # type: ignore[no-any-return]


# ── a session of our own ─────────────────────────────────────────────────────────────────────────

_SERVICES = ("dynamodb", "dynamodbstreams")
_making = threading.Lock()  # boto3 sessions are not safe to share while they make clients


@lru_cache(maxsize=1)
def _session() -> boto3.session.Session:
    """A boto3 session that reads no environment variable and no configuration file."""
    every = botocore.session.Session.SESSION_VARIABLES.items()
    settings = {name: (None, None, default, convert) for name, (_, _, default, convert) in every}
    for file in ("config_file", "credentials_file"):
        settings[file] = (None, None, os.devnull, None)
    session = botocore.session.Session(session_vars=settings)
    session.set_credentials("penstock", "penstock")
    for event in ("dynamodb", "dynamodb-streams"):
        session.register(f"creating-client-class.{event}", _become_embedded)
    return boto3.session.Session(botocore_session=session)


def _become_embedded(**event: Any) -> None:
    event["base_classes"].insert(0, EmbeddedClient)


# ── a call ───────────────────────────────────────────────────────────────────────────────────────


class Operation:
    """What a call of one operation needs, found once for each client."""

    def __init__(self, client: Any, name: str) -> None:
        service = client.meta.service_model
        event = f"{service.service_id.hyphenize()}.{name}"
        self.name = name
        self.model = service.operation_model(name)
        self.provide_params = f"provide-client-params.{event}"
        self.before_build = f"before-parameter-build.{event}"
        self.before_call = f"before-call.{event}"
        self.after_call = f"after-call.{event}"
        self.target = f"{service.metadata['targetPrefix']}.{name}"
        with _compiling:
            self.encode = _ENCODERS[service.service_name].of(self.model.input_shape)
            self.decode = _DECODERS[service.service_name].of(self.model.output_shape)


_compiling = threading.Lock()
_ENCODERS = {service: Encoders() for service in _SERVICES}
_DECODERS = {service: Decoders() for service in _SERVICES}


class Answer:
    """Stands where botocore has an HTTP response."""

    __slots__ = ("_wire", "headers", "status_code")

    def __init__(self, status_code: int, request_id: str, wire: dict[str, Any]) -> None:
        self.status_code = status_code
        self.headers = {"x-amzn-requestid": request_id, "content-type": _JSON}
        self._wire = wire

    @property
    def content(self) -> bytes:
        return orjson.dumps(self._wire)

    @property
    def text(self) -> str:
        return self.content.decode()


class EmbeddedClient(BaseClient):
    """First among a client's classes: answers each call from the engine."""

    # botocore's own, which its type stubs do not name
    exceptions: Any
    _request_signer: Any
    _serializer: Any

    def _attach(self, path: Openable) -> None:
        self._database = path if isinstance(path, Database) else connect(_file(path))
        self._opened_here = self._database is not path
        self._operations: dict[str, Operation] = {}

    def close(self) -> None:
        """Closes the database if this client opened it."""
        if self._opened_here:
            self._database.close()
        super().close()

    def _make_api_call(self, operation_name: str, api_params: dict[str, Any]) -> dict[str, Any]:
        operation = self._operations.get(operation_name)
        if operation is None:
            operation = self._operations[operation_name] = Operation(self, operation_name)
        emitter: Any = self.meta.events
        model, context = operation.model, self._context(operation)

        given = emitter.emit(operation.provide_params, params=api_params, model=model, context=context)
        api_params = first_non_none_response(given, default=api_params)
        emitter.emit(operation.before_build, params=api_params, model=model, context=context)
        request, sent = self._request(operation, api_params, context)
        _, answered = emitter.emit_until_response(
            operation.before_call,
            model=model,
            params=sent,
            request_signer=self._request_signer,
            context=context,
        )
        http: Answer
        parsed: dict[str, Any]
        http, parsed = self._answer(operation, request) if answered is None else answered
        emitter.emit(operation.after_call, http_response=http, parsed=parsed, model=model, context=context)
        if http.status_code >= 300:
            code = context.get("error_code_override") or parsed.get("Error", {}).get("Code")
            raise self.exceptions.from_code(code)(parsed, operation_name)
        return parsed

    def _context(self, operation: Operation) -> dict[str, Any]:
        return {
            "client_region": self.meta.region_name,
            "client_config": self.meta.config,
            "has_streaming_input": False,
            "auth_type": operation.model.auth_type,
            "unsigned_payload": None,
        }

    def _request(
        self, operation: Operation, params: dict[str, Any], context: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The request in DynamoDB's JSON, and the dict that botocore's handlers know a request as."""
        try:
            request = operation.encode(params)
            body = orjson.dumps(request)
        except (LookupError, TypeError):
            # Raises botocore's ParamValidationError, or shows that the parameters are only unusual.
            body = self._serializer.serialize_to_request(params, operation.model)["body"]
            request = json.loads(body)
        sent = {
            "url_path": "/",
            "query_string": "",
            "method": "POST",
            "headers": {"X-Amz-Target": operation.target, "Content-Type": _JSON},
            "body": body,
            "url": _ENDPOINT + "/",
            "context": context,
        }
        return request, sent

    def _answer(self, operation: Operation, request: dict[str, Any]) -> tuple[Answer, dict[str, Any]]:
        request_id = token_hex(26).upper()
        try:
            wire = self._database.execute(operation.name, request)
        except DynamoDBError as error:
            http = Answer(error.status, request_id, error.body())
            parsed = self._error(error)
        else:
            http = Answer(200, request_id, wire)
            parsed = dict(wire) if operation.decode is None else operation.decode(wire)
        parsed["ResponseMetadata"] = {
            "RequestId": request_id,
            "HTTPStatusCode": http.status_code,
            "HTTPHeaders": http.headers,
            "RetryAttempts": 0,
        }
        return http, parsed

    def _error(self, error: DynamoDBError) -> dict[str, Any]:
        """A failure as botocore parses it: the error, and beside it the members that its shape has."""
        parsed: dict[str, Any] = {"Error": {"Message": error.message, "Code": error.code}}
        service: Any = self.meta.service_model
        shape = service.shape_for_error_code(error.code)
        if shape is None:
            return parsed
        body = {name: member for name, member in error.body().items() if name in shape.members}
        with _compiling:
            decode: Convert | None = _DECODERS[service.service_name].of(shape)
        return parsed | (body if decode is None else decode(body))


def _file(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The path; a URL is refused, because these clients are for the engine in this process (1)."""
    if isinstance(endpoints.parse(os.fspath(path)), endpoints.File):
        return path
    raise PenstockError(
        f"boto3_client() and boto3_resource() open a file or {MEMORY!r}, not {os.fspath(path)!r}. "
        "For an endpoint use boto3's own: boto3.client('dynamodb', endpoint_url=…)."
    )
