"""What stands where a page is not made yet: it says so, and what to use meanwhile."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.web.dashboard.desk import Desk

_MEANWHILE: Final = {
    "pipelines": ("Pipelines", "Runs of pipelines are jobs: find them among the jobs.", "penstock jobs list"),
    "records": ("Records", "Processing runs are not shown here yet.", "penstock --help"),
    "tables": ("Tables", "Tables are not shown here yet. The command line has them.", "penstock tables --help"),
}


def routes(desk: Desk, name: str) -> list[Route]:
    title, sentence, command = _MEANWHILE[name]

    def show(request: Request) -> Response:
        return desk.page(request, "empty.html", title=title, sentence=sentence, hint=command)

    return [Route(f"/{name}", show), Route(f"/{name}/{{rest:path}}", show)]
