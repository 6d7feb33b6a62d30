"""`/login` and `/logout`: the token, where the dashboard is bound to more than this machine."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from penstock.web.dashboard.security import LOGIN, LOGOUT
from penstock.web.dashboard.site import Site


def routes(site: Site) -> list[Route]:
    async def login(request: Request) -> Response:
        fields = {name: [value] for name, value in request.query_params.items()}
        if request.method == "POST":
            fields = await site.access.read_form(request)
        given, name, wanted = (fields.get(field, [""])[0] for field in ("token", "name", "next"))
        wanted = _own_path(wanted)
        if not site.access.wants_token or (not given and site.access.is_signed_in(request.scope)):
            return RedirectResponse(wanted, 303)
        if site.access.is_token(given.strip()):
            response: Response = RedirectResponse(wanted, 303)  # the token leaves the address bar
            site.access.sign_in(response, name)
            return response
        context = {"wrong": bool(given), "wanted": wanted, "visitor_name": name}
        return site.page(request, "login.html", 403 if given else 200, **context)

    async def logout(request: Request) -> Response:
        await site.access.read_form(request)
        response = RedirectResponse(LOGIN, 303)
        site.access.sign_out(response)
        return response

    return [Route(LOGIN, login, methods=["GET", "POST"]), Route(LOGOUT, logout, methods=["POST"])]


def _own_path(wanted: str) -> str:
    """A page of this dashboard: a link to the login must not lead to another site."""
    is_own = wanted.startswith("/") and not wanted.startswith(("//", "/\\", LOGIN)) and wanted.isprintable()
    return wanted if is_own else "/"
