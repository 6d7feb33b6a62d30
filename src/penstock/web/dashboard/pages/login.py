"""`/login`: the token, where the dashboard is bound to more than this machine."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from penstock.web.dashboard.desk import Desk
from penstock.web.dashboard.security import LOGIN


def routes(desk: Desk) -> list[Route]:
    async def login(request: Request) -> Response:
        if not desk.keeper.wants_token:
            return RedirectResponse("/", 303)
        given = request.query_params.get("token", "")
        if request.method == "POST":
            given = (await desk.keeper.form_of(request)).get("token", [""])[0]
        if desk.keeper.is_token(given.strip()):
            response: Response = RedirectResponse("/", 303)  # the token leaves the address bar
            desk.keeper.let_in(response)
            return response
        return desk.page(request, "login.html", 403 if given else 200, wrong=bool(given))

    return [Route(LOGIN, login, methods=["GET", "POST"])]
