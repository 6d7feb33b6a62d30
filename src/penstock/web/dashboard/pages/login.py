"""`/login`: the token, where the dashboard is bound to more than this machine."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from penstock.web.dashboard.security import LOGIN
from penstock.web.dashboard.site import Site


def routes(site: Site) -> list[Route]:
    async def login(request: Request) -> Response:
        if not site.access.wants_token:
            return RedirectResponse("/", 303)
        given = request.query_params.get("token", "")
        if request.method == "POST":
            given = (await site.access.read_form(request)).get("token", [""])[0]
        if site.access.is_token(given.strip()):
            response: Response = RedirectResponse("/", 303)  # the token leaves the address bar
            site.access.sign_in(response)
            return response
        return site.page(request, "login.html", 403 if given else 200, wrong=bool(given))

    return [Route(LOGIN, login, methods=["GET", "POST"])]
