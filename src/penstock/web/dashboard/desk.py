"""What every page has at hand: the data, the templates, the session's form token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from penstock import __version__
from penstock.client.wrappers.metering import Usage
from penstock.clock import Clock, SystemClock
from penstock.web.dashboard.board import Board
from penstock.web.dashboard.rendering import make_environment
from penstock.web.dashboard.security import Keeper
from penstock.web.dashboard.source import Source


@dataclass(frozen=True, slots=True)
class Link:
    """A line of the navigation."""

    path: str
    label: str


NAVIGATION: Final = (
    Link("/", "Overview"),
    Link("/jobs", "Jobs"),
    Link("/pipelines", "Pipelines"),
    Link("/records", "Records"),
    Link("/tables", "Tables"),
    Link("/workers", "Workers"),
)


_UNTOLD: Final = {"place": "", "version": ""}
"""What the page that asks for the token does not say."""


class Desk:
    """Given to each page's module when its routes are made."""

    def __init__(self, source: Source, keeper: Keeper, clock: Clock | None = None) -> None:
        self.source = source
        self.keeper = keeper
        self.clock = clock or SystemClock()
        self.board = Board(source)
        self._environment = make_environment(self.clock.now)
        self._environment.globals.update(
            navigation=NAVIGATION, version=__version__, place=source.place, read_only=keeper.read_only
        )

    def page(self, request: Request, template: str, status: int = 200, **context: Any) -> Response:
        """A whole page, with the token that its forms need.

        A template has a `title` block, and `context` may name the live feed that keeps it fresh (`live`).
        """
        session = self.keeper.session_of(request)
        html = self.fragment(
            template,
            path=request.url.path,
            csrf=self.keeper.form_token(session),
            **{"live": None, "refresh_seconds": None, **context},
            **({} if self.keeper.lets_in(request.scope) else _UNTOLD),
        )
        response = HTMLResponse(html, status)
        self.keeper.remember(response, session)
        return response

    def fragment(self, template: str, **context: Any) -> str:
        """A part of a page, as it is within the page and as it is sent to pages that are open."""
        return self._environment.get_template(template).render(**context)

    @property
    def spent(self) -> Usage:
        """What this process's own looking has cost."""
        return self.source.meter.units()
