"""The pages. Each module has `routes(site)`, and `feeds(site)` if its pages are live.

To add one: a module here with those functions, its templates beside the others, and its place in `MODULES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.routing import BaseRoute

from penstock.web.dashboard.pages import (
    chosen_items,
    items,
    job,
    jobs,
    login,
    overview,
    partiql,
    pipelines,
    records,
    schedules,
    tables,
    workers,
)
from penstock.web.dashboard.poller import Feed
from penstock.web.dashboard.site import Site

# In the order in which their routes are tried.
MODULES: Final = (
    overview,
    jobs,
    job,
    schedules,
    pipelines,
    records,
    tables,
    items,
    chosen_items,
    partiql,
    workers,
    login,
)


def routes(site: Site) -> list[BaseRoute]:
    """The routes of all pages."""
    return [route for module in MODULES for route in module.routes(site)]


def feeds(site: Site) -> Mapping[str, Feed]:
    """The live feeds of all pages, by name."""
    named: dict[str, Feed] = {}
    for module in MODULES:
        make = getattr(module, "feeds", None)
        if make is not None:
            named.update(make(site))
    return named
