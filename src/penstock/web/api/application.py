"""An HTTP API: a FastAPI router, and what all of our APIs share.

    router = ApiRouter()

    @router.get("/jobs/{id}", responses=refusals({404: "There is no such job"}))
    def job(id: str, service: Service) -> JobView: ...

    app = make_api("Excel reports", router, state=service)

1. An endpoint's declaration is what is checked, and what `GET /openapi.json` and `GET /docs` show. A query parameter
   that it does not declare is refused.
2. Every error is JSON with kind, message and next step (penstock.web.problems).
3. Plain functions run in threads; an `async def` handler may read the request as it arrives.
4. The guard checks host, origin and size first (penstock.web.guard).

Every API has `GET /health`, `GET /openapi.json` and `GET /docs`.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import orjson
from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from penstock import __version__
from penstock.errors import PenstockError
from penstock.web.api.reference import reference_page
from penstock.web.api.validation import ErrorAnswer, sentences
from penstock.web.guard import API_HEADERS, Guard, SecurityHeaders
from penstock.web.problems import Problem, Statuses, json_answer, problem_of

BODY_BYTES: Final = 64 * 1024
"""Of a body, unless its endpoint has another limit."""
JSON: Final = "application/json"
_LOG = logging.getLogger("penstock.web")


def make_api(
    title: str,
    router: ApiRouter,
    *,
    state: Any = None,
    description: str = "",
    health: Callable[[], Mapping[str, Any]] = dict,
    statuses: Statuses | None = None,
    hosts: Iterable[str] = (),
    body_bytes: Mapping[str, int] | None = None,
    lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None = None,
    prefix: str = "",
    middleware: Sequence[Middleware] = (),
) -> FastAPI:
    """The ASGI application.

    Handlers find `state` as `request.app.state.service`. `health` returns facts, or raises if something that the API
    needs does not answer (503). `statuses` maps Penstock's errors to HTTP statuses. `hosts` are host names to accept
    beside this machine's own. `body_bytes` has the limits of paths whose bodies may be longer than BODY_BYTES.
    `prefix` is that of the router's paths: /health, /docs and /openapi.json are below it too. `middleware` comes after
    the guard.
    """
    handlers: Any = {Problem: _problem, HTTPException: _http_error, RequestValidationError: _invalid}
    limits = _BodyLimits(router.routes, body_bytes or {})
    app = _Api(
        title=title,
        version=__version__,
        description=description,
        openapi_url=f"{prefix}/openapi.json",
        docs_url=None,  # FastAPI's own pages load their scripts from elsewhere
        redoc_url=None,
        middleware=[
            Middleware(SecurityHeaders, headers=API_HEADERS),
            Middleware(Guard, hosts=tuple(hosts), body_bytes=limits),
            *middleware,
        ],
        exception_handlers=handlers,
        generate_unique_id_function=_operation_id,
        lifespan=lifespan,
    )
    app.state.service = state
    app.state.prefix = prefix
    app.state.statuses = statuses or {}
    app.include_router(router)
    app.include_router(_own_routes(health, prefix))
    return app


class _Api(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, without the answer 422 that FastAPI adds to every endpoint: ours is 400."""
        if self.openapi_schema is None:
            document = get_openapi(
                title=self.title, version=self.version, description=self.description, routes=self.routes
            )
            for operations in document["paths"].values():
                for operation in operations.values():
                    if "HTTPValidationError" in str(operation["responses"].get("422")):
                        del operation["responses"]["422"]
            for name in ("HTTPValidationError", "ValidationError"):
                document.get("components", {}).get("schemas", {}).pop(name, None)
            self.openapi_schema = document
        return self.openapi_schema


def _own_routes(health: Callable[[], Mapping[str, Any]], prefix: str) -> APIRouter:
    router = ApiRouter(prefix)

    @router.get("/health", summary="Whether it can work", responses=refusals({503: "Something that it needs is away"}))
    def healthy() -> Response:
        try:
            return json_answer({"status": "ok", **health()})
        except PenstockError as error:
            raise Problem(503, str(error), "See the server's log.") from error

    @router.get("/docs", include_in_schema=False)
    def reference(request: Request) -> Response:
        return reference_page(request.app.openapi())

    return router


def refusals(answers: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """For an endpoint's `responses`: when it answers with these statuses."""
    return {status: {"model": ErrorAnswer, "description": words} for status, words in answers.items()}


def file_answer(media_type: str) -> dict[int | str, dict[str, Any]]:
    """For an endpoint's `responses`: it answers with a file."""
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    return {200: {"description": "The file", "content": content}}


def url_for(request: Request, path: str) -> str:
    """Another path of this API, as the caller reaches it."""
    return str(request.base_url).rstrip("/") + path


def _operation_id(route: APIRoute) -> str:
    (method, *_) = route.methods or ("GET",)
    return f"{method.lower()}{re.sub(r'[^a-z0-9]+', '_', route.path.lower()).rstrip('_')}"


# ── requests ─────────────────────────────────────────────────────────────────────────────────────


class ApiRoute(APIRoute):
    """An endpoint: its query and its body's type are checked first, and its errors become problems."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                _check_query(request, self)
                if self.body_field is not None and _has_body(request):
                    _check_is_json(request)
                response = await handle(_JsonRequest(request.scope, request.receive))
                if response.media_type == JSON:
                    response.headers["Cache-Control"] = "no-store"
                return response
            except (HTTPException, RequestValidationError):
                raise
            except ClientDisconnect:
                return Response(status_code=400)  # nobody will read it
            except PenstockError as error:
                problem = problem_of(error, request.app.state.statuses)
                if problem.status >= 500:
                    _LOG.warning("%s %s: %s", request.method, self.path, error)
                raise problem from error
            except Exception as error:  # the outermost place: it is logged, and the caller is told nothing of it
                _LOG.exception("%s %s failed", request.method, self.path)
                raise Problem(500, "The server has failed to answer this.", "See the server's log.") from error

        return answer

    # A HEAD is a GET whose body the server does not send; FastAPI alone would refuse it.

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return super().matches(_as_get(scope))

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await super().handle(_as_get(scope), receive, send)


def _as_get(scope: Scope) -> Scope:
    return {**scope, "method": "GET"} if scope.get("method") == "HEAD" else scope


class ApiRouter(APIRouter):
    def __init__(self, prefix: str = "") -> None:
        super().__init__(route_class=ApiRoute, prefix=prefix)


class _JsonRequest(Request):
    async def json(self) -> Any:
        body = await self.body()
        value = orjson.loads(body)  # unlike json's, it takes no NaN; but long integers become floats
        return json.loads(body) if _LONG_INTEGER.search(body) else value


_LONG_INTEGER: Final = re.compile(rb"[0-9]{19}")


def _operation(request: Request, route: APIRoute) -> Mapping[str, Any]:
    """What the OpenAPI document says of an endpoint; nothing for one that it does not have."""
    operations = request.app.openapi()["paths"].get(route.path_format, {})
    found: Mapping[str, Any] = operations.get(request.method.lower(), {})
    return found


def _check_query(request: Request, route: APIRoute) -> None:
    known = [one["name"] for one in _operation(request, route).get("parameters", ()) if one["in"] == "query"]
    shown = ", ".join(known) or "none"
    errors = [f"{name[:100]} is not known; there are {shown}" for name in request.query_params if name not in known]
    if errors:
        raise Problem(400, "There are query parameters that this has not.", "Leave them out.", errors=errors)


def _has_body(request: Request) -> bool:
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


def _check_is_json(request: Request) -> None:
    # A page of another site can send a form or plain text unasked, but not this type.
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise Problem(415, f"The body is {JSON}, not {kind[:100] or 'without a type'}.", f"Send Content-Type: {JSON}.")


class _BodyLimits:
    """How long a body may be, by method and path: the guard asks before there is a route."""

    def __init__(self, routes: Iterable[BaseRoute], limits: Mapping[str, int]) -> None:
        self._limits = [(one, limits[one.path]) for one in routes if isinstance(one, APIRoute) and one.path in limits]

    def __call__(self, method: str, path: str) -> int:
        scope = {"type": "http", "method": method, "path": path, "root_path": ""}
        for route, limit in self._limits:
            if route.matches(scope)[0] is Match.FULL:
                return limit
        return BODY_BYTES


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────


async def _problem(request: Request, error: Problem) -> Response:
    return error.response()


async def _http_error(request: Request, error: HTTPException) -> Response:
    """What Starlette refuses: no such path, or not by this method."""
    what = f"{request.method} {request.url.path[:100]}"
    words = {404: f"There is no {request.url.path[:100]}.", 405: f"{what} is not possible."}
    message = words.get(error.status_code, str(error.detail))
    next_step = f"See {request.app.openapi_url}."
    return Problem(error.status_code, message, next_step, headers=error.headers).response()


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    """What pydantic refuses. A path's or query's parameter stands under its own name, as a body's member does."""
    found = error.errors()
    if found[0]["type"] == "json_invalid":
        message = f"The body is not JSON: {found[0]['ctx']['error']}."
        return Problem(400, message, "Send one JSON object.").response()
    operation = _operation(request, request.scope["route"])
    body = operation.get("requestBody", {}).get("content", {}).get(JSON, {}).get("schema", {})
    parameters = {"properties": {one["name"]: one["schema"] for one in operation.get("parameters", ())}}
    errors: list[str] = []
    for place, schema in (("body", body), ("", parameters)):
        mine = [(tuple(one["loc"][1:]), one) for one in found if (one["loc"][0] == "body") == (place == "body")]
        errors += sentences(mine, schema, request.app.openapi())
    message = "The request has an error." if len(errors) == 1 else f"The request has {len(errors)} errors."
    return Problem(400, message, f"See `errors`, and {request.app.openapi_url}.", errors=errors).response()
