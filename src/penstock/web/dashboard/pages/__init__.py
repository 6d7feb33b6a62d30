"""The pages. Each module has `routes(desk)`, and `feeds(desk)` where its pages are live.

To add one: a module here with those functions, its templates beside the others, and its line below.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.routing import BaseRoute

from penstock.web.dashboard.desk import Desk
from penstock.web.dashboard.live import Feed
from penstock.web.dashboard.pages import (
    bulk,
    item,
    items,
    job,
    jobs,
    login,
    overview,
    pipelines,
    records,
    tables,
    workers,
)

# In the order in which their routes are tried.
MODULES: Final = (overview, jobs, bulk, job, pipelines, records, tables, items, item, workers, login)


def routes(desk: Desk) -> list[BaseRoute]:
    """Those of all pages."""
    return [route for module in MODULES for route in module.routes(desk)]


def feeds(desk: Desk) -> Mapping[str, Feed]:
    """Those of all pages, by name."""
    found: dict[str, Feed] = {}
    for module in MODULES:
        make = getattr(module, "feeds", None)
        if make is not None:
            found.update(make(desk))
    return found
