"""What the HTTP faces of the systems share: endpoints with typed descriptions, on Starlette.

    face = make_face(
        "Excel reports",
        [Endpoint("GET", "/jobs/{id}", show_job, "A job with its history", answers={200: JobHistory, 404: Problem})],
    )

1. An endpoint's description is what is checked, and what `GET /openapi.json` shows: there is no second one.
2. Whatever goes wrong is answered as JSON with kind, message and next step (problems.py).
3. Handlers that are plain functions run in threads; `async def` ones may read the request as it comes.
4. Everything has passed the guard (guard.py): host, origin, size.

`GET /health` and `GET /openapi.json` are always there.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from penstock import __version__
from penstock.errors import PenstockError
from penstock.systems.shapes import Misshapen, parse, schema
from penstock.web.guard import Guard, Sealed
from penstock.web.problems import Problem, json_answer, problem_of

BODY_BYTES: Final = 64 * 1024
"""Of a JSON body, unless the endpoint has another limit."""
JSON: Final = "application/json"
_LOG = logging.getLogger("penstock.web")
_PARAMETER = re.compile(r"{(\w+)(?::\w+)?}")


@dataclass(frozen=True, slots=True)
class Call:
    """A request, as a handler gets it."""

    request: Request
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any = None
    """A value of the endpoint's `body` shape; None where it has none."""

    def url(self, path: str) -> str:
        """Another path of this face, as the caller reaches it."""
        return str(self.request.base_url).rstrip("/") + path


Handler = Callable[[Call], Response] | Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method of one path. `answers` is a shape for each status; a text is the media type of a file."""

    method: str
    path: str
    handler: Handler
    summary: str
    answers: Mapping[int, Any] = field(default_factory=lambda: {200: dict})
    body: Any = None
    """The shape of a JSON body. A handler of other bodies (`media`) reads the request itself."""
    media: Mapping[str, Any] = field(default_factory=dict)
    """Media types that it takes beside JSON, each with the JSON Schema of its form."""
    query: Mapping[str, str] = field(default_factory=dict)
    """Query parameters, all optional texts, and what they mean; others are refused."""
    body_bytes: int = BODY_BYTES


def make_face(
    title: str,
    endpoints: Sequence[Endpoint],
    *,
    description: str = "",
    health: Callable[[], Mapping[str, Any]] = dict,
    statuses: Mapping[type[Exception], int] | None = None,
    hosts: Iterable[str] = (),
    lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None = None,
) -> Starlette:
    """The ASGI application.

    `health` gives facts, or raises where something that the face needs is away (503). `statuses` maps errors of ours
    to HTTP's. `hosts` are names beside this machine's own that it may be called by.
    """

    def healthy(call: Call) -> Response:
        try:
            return json_answer({"status": "ok", **health()})
        except PenstockError as error:
            raise Problem(503, str(error), "See the server's log.") from error

    every = [*endpoints, Endpoint("GET", "/health", healthy, "Whether it can work")]
    document = openapi(title, description, every)
    routes = [_route(endpoint, statuses or {}) for endpoint in every]
    routes.append(Route("/openapi.json", lambda request: json_answer(document), methods=["GET"]))
    handlers: Mapping[Any, Any] = {Problem: _problem, HTTPException: _refused}
    limits = _Limits(every)
    before = [Middleware(Sealed), Middleware(Guard, hosts=tuple(hosts), body_bytes=limits)]
    return Starlette(routes=routes, middleware=before, exception_handlers=handlers, lifespan=lifespan)


# ── requests ─────────────────────────────────────────────────────────────────────────────────────


def _route(endpoint: Endpoint, statuses: Mapping[type[Exception], int]) -> Route:
    async def run(request: Request) -> Response:
        try:
            return await _answer(endpoint, request)
        except (Problem, HTTPException):
            raise
        except ClientDisconnect:
            return Response(status_code=400)  # nobody will read it
        except PenstockError as error:
            problem = problem_of(error, statuses)
            if problem.status >= 500:
                _LOG.warning("%s %s: %s", endpoint.method, endpoint.path, error)
            raise problem from error
        except Exception as error:  # the outermost place: it is logged, and the caller is told nothing of our insides
            _LOG.exception("%s %s failed", endpoint.method, endpoint.path)
            raise Problem(500, "The server has failed to answer this.", "See the server's log.") from error

    return Route(endpoint.path, run, methods=[endpoint.method])


async def _answer(endpoint: Endpoint, request: Request) -> Response:
    query = _query(endpoint, request)
    body = await _body(endpoint, request) if endpoint.body is not None else None
    call = Call(request, dict(request.path_params), query, body)
    if inspect.iscoroutinefunction(endpoint.handler):
        answer: Response = await endpoint.handler(call)
        return answer
    found: Any = await run_in_threadpool(endpoint.handler, call)
    response: Response = found
    return response


def _query(endpoint: Endpoint, request: Request) -> dict[str, str]:
    known = ", ".join(endpoint.query) or "none"
    errors = [
        f"{name[:100]} is not known; there are {known}" for name in request.query_params if name not in endpoint.query
    ]
    if errors:
        raise Problem(400, "There are query parameters that this has not.", "Leave them out.", errors=errors)
    return dict(request.query_params)


async def _body(endpoint: Endpoint, request: Request) -> Any:
    # A page of another site can send a form or plain text unasked, but not this type.
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in endpoint.media:
        return None
    if kind != JSON:
        raise Problem(415, f"The body is {JSON}, not {kind[:100] or 'without a type'}.", f"Send Content-Type: {JSON}.")
    try:
        value = orjson.loads(await request.body())
    except orjson.JSONDecodeError as error:
        raise Problem(400, f"The body is not JSON: {error}.", "Send one JSON object.") from None
    try:
        return parse(endpoint.body, value)
    except Misshapen as wrong:
        message = (
            "The request has an error." if len(wrong.errors) == 1 else f"The request has {len(wrong.errors)} errors."
        )
        raise Problem(400, message, "See `errors`, and /openapi.json.", errors=wrong.errors) from None


async def _problem(request: Request, error: Problem) -> Response:
    return error.response()


async def _refused(request: Request, error: HTTPException) -> Response:
    """What Starlette refuses: no such path, or not by this method."""
    what = f"{request.method} {request.url.path[:100]}"
    words = {404: f"There is no {request.url.path[:100]}.", 405: f"{what} is not possible."}
    message = words.get(error.status_code, str(error.detail))
    return Problem(error.status_code, message, "See /openapi.json.", headers=error.headers).response()


class _Limits:
    """How long a body may be, by method and path: the guard asks before there is a route."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        larger = [one for one in endpoints if one.body_bytes != BODY_BYTES]
        self._templates = [(one.method, one.path.split("/"), one.body_bytes) for one in larger]

    def __call__(self, method: str, path: str) -> int:
        parts = path.split("/")
        for wanted, template, limit in self._templates:
            if method == wanted and _fits(parts, template):
                return limit
        return BODY_BYTES


def _fits(parts: list[str], template: list[str]) -> bool:
    """Whether a path is an endpoint's: part for part the same, and for a parameter any part but an empty one."""
    if len(parts) != len(template):
        return False
    pairs = zip(parts, template, strict=True)
    return all(part == piece or (part and _PARAMETER.fullmatch(piece)) for part, piece in pairs)


# ── the description ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """What is wrong: a word for programs, a sentence for people, and what to do."""

    kind: str
    message: str
    next_step: str
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """Every answer from 400 on."""

    error: ErrorFacts


def openapi(title: str, description: str, endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The OpenAPI document of these endpoints."""
    shapes: dict[str, Any] = {}
    for endpoint in endpoints:
        if endpoint.body is not None:
            schema(endpoint.body, shapes)  # first: a shape that is also answered stays as strict as it is read
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        path = _PARAMETER.sub(r"{\1}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, shapes)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": __version__, "description": description},
        "paths": paths,
        "components": {"schemas": shapes},
    }


def _operation(endpoint: Endpoint, shapes: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": f"{endpoint.method.lower()}{re.sub(r'[^a-z0-9]+', '_', endpoint.path.lower()).rstrip('_')}",
        "responses": {str(status): _response(status, kind, shapes) for status, kind in endpoint.answers.items()},
    }
    inner = [_parameter(name, "path", "") for name in _PARAMETER.findall(endpoint.path)]
    inner += [_parameter(name, "query", words) for name, words in endpoint.query.items()]
    if inner:
        operation["parameters"] = inner
    content: dict[str, Any] = {} if endpoint.body is None else {JSON: {"schema": schema(endpoint.body, shapes)}}
    content.update({kind: {"schema": form} for kind, form in endpoint.media.items()})
    if content:
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _parameter(name: str, place: str, words: str) -> dict[str, Any]:
    form: dict[str, Any] = {"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}}
    return {**form, "description": words} if words else form


_FIRST_ERROR: Final = 400


def _response(status: int, kind: Any, shapes: dict[str, Any]) -> dict[str, Any]:
    if status >= _FIRST_ERROR:
        words = kind if isinstance(kind, str) else "Refused"
        return {"description": words, "content": {JSON: {"schema": schema(ErrorAnswer, shapes, is_open=True)}}}
    if isinstance(kind, str):
        return {"description": "A file", "content": {kind: {"schema": {"type": "string", "format": "binary"}}}}
    return {"description": "Done", "content": {JSON: {"schema": schema(kind, shapes, is_open=True)}}}
