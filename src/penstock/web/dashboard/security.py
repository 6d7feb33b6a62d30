"""Login, form tokens and headers. Hosts and sizes of requests are checked before this (web/guard.py).

1. Every response has a Content-Security-Policy that lets no inline script or style run, and no page be framed.
2. Every form has a token that only a page of this process can know; a POST without it changes nothing.
3. In read-only mode every POST is refused, except signing in.
4. If the dashboard is bound to more than this machine, every request needs the token: as a cookie from /login, or as a
   bearer token. Only /healthz, which says no more than whether the database answers, needs none.
5. Cookies and form tokens are signed with a key made of the token: pages that are open stay signed in when the
   dashboard is started again with the same token. Without one the key is new with each start.
6. Cookies are sent with links from elsewhere (SameSite=Lax), so that a link in a chat leads to its page. They do not
   come with another site's POST, which would lack the form token too (2).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.web.problems import Problem, unauthorized

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of a response that does not set its own: a picture has a stricter policy, a static file may be cached."""
SESSION: Final = "penstock_session"
PASS: Final = "penstock_pass"  # noqa: S105 - the name of a cookie
FORM_FIELD: Final = "csrf"
LOGIN: Final = "/login"
LOGOUT: Final = "/logout"
HEALTH: Final = "/healthz"
METRICS: Final = "/metrics"
_STATIC: Final = "/static/"


class AccessMiddleware:
    """ASGI middleware: refuses requests (3, 4). `page` shows a refusal to a browser."""

    def __init__(self, app: ASGIApp, access: AccessControl, page: Callable[[Problem], ASGIApp]) -> None:
        self._app = app
        self._access = access
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._access.refusal(scope) if scope["type"] == "http" else None
        answer: ASGIApp = self._app
        if isinstance(refusal, Problem):
            is_browser = "text/html" in Headers(scope=scope).get("accept", "")
            answer = self._page(refusal) if is_browser else refusal.response()
        elif refusal is not None:
            answer = refusal
        await answer(scope, receive, send)


class AccessControl:
    """The secrets of a dashboard, and the checks against them."""

    def __init__(self, *, token: str | None = None, read_only: bool = False) -> None:
        self.read_only = read_only
        self._token = token
        self._secret = (
            secrets.token_bytes(32) if token is None else hashlib.sha256(f"penstock {token}".encode()).digest()
        )

    @property
    def wants_token(self) -> bool:
        return self._token is not None

    def refusal(self, scope: Scope) -> Response | Problem | None:
        """What a refused request is answered with; None if it is allowed."""
        path: str = scope["path"]
        if self.read_only and scope["method"] == "POST" and path not in (LOGIN, LOGOUT):
            return Problem(
                403, "This dashboard is read-only.", "Start `penstock up` without --read-only to change things."
            )
        if path in (LOGIN, HEALTH) or path.startswith(_STATIC) or self.is_signed_in(scope):
            return None
        if path == METRICS:
            return unauthorized().response()
        if scope["method"] in ("GET", "HEAD") and not path.startswith("/live/"):
            wanted = path + (f"?{scope['query_string'].decode('latin-1')}" if scope.get("query_string") else "")
            return RedirectResponse(LOGIN if wanted == "/" else f"{LOGIN}?{urlencode({'next': wanted})}", 303)
        told = "This dashboard needs its token. Nothing was changed."
        return Problem(403, told, "Sign in at /login, then do it again.")

    def is_signed_in(self, scope: Scope) -> bool:
        """Whether the request carries the token, or needs none."""
        if self._token is None:
            return True
        request = Request(scope)
        bearer = Headers(scope=scope).get("authorization", "").removeprefix("Bearer ")
        return self.is_token(bearer) or self._pass_name(request) is not None

    def is_token(self, text: str) -> bool:
        return self._token is not None and _same(text, self._token)

    def sign_in(self, response: Response, name: str = "") -> None:
        """Sets a cookie that proves the token, with the visitor's name: the browser does not store the token itself."""
        named = quote(name.strip()[:_LONGEST_NAME], safe="")
        value = f"{named}.{self._sign(f'pass {named}')}"
        response.set_cookie(PASS, value, httponly=True, samesite="lax", path="/")

    def sign_out(self, response: Response) -> None:
        response.delete_cookie(PASS, httponly=True, samesite="lax", path="/")

    def visitor(self, request: Request) -> str:
        """The name that was given at sign-in; `local` where none is asked for."""
        return (self._pass_name(request) or "unnamed") if self.wants_token else "local"

    def _pass_name(self, request: Request) -> str | None:
        """The name in the visitor's pass; None without a valid one."""
        named, _, signature = request.cookies.get(PASS, "").rpartition(".")
        return unquote(named) if signature and _same(signature, self._sign(f"pass {named}")) else None

    # ── forms ────────────────────────────────────────────────────────────────────────────────────

    def session(self, request: Request) -> str:
        """The visitor's session, or a new one."""
        return request.cookies.get(SESSION) or secrets.token_urlsafe(18)

    def form_token(self, session: str) -> str:
        return self._sign(f"form {session}")

    def remember(self, response: Response, session: str) -> None:
        response.set_cookie(SESSION, session, httponly=True, samesite="lax", path="/")

    async def read_form(self, request: Request) -> dict[str, list[str]]:
        """The fields of a posted form. Raises Problem if its token is not this session's (2)."""
        text = (await request.body()).decode("utf-8", "replace")
        fields: dict[str, list[str]] = {}
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
        except ValueError:
            raise Problem(413, f"The form has more than {_MOST_FIELDS:,} fields.", "Choose fewer.") from None
        for name, value in pairs:
            fields.setdefault(name, []).append(value)
        session = request.cookies.get(SESSION, "")
        given = fields.get(FORM_FIELD, [""])[0]
        if not session or not _same(given, self.form_token(session)):
            raise Problem(
                403,
                "This form is not from a page of this dashboard, or the dashboard was started anew since.",
                "Go back, load the page again, and send it once more.",
            )
        return fields

    def _sign(self, text: str) -> str:
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()


_MOST_FIELDS: Final = 5_000
_LONGEST_NAME: Final = 60


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())
