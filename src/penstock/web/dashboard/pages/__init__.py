"""The pages. Each module has `routes(desk)`, and `feeds(desk)` where its pages are live.

To add one: a module here with those functions, and its templates beside the others. Modules that are not there yet are
stood in for by an empty state (placeholder.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Final

from starlette.routing import BaseRoute

from penstock.web.dashboard.desk import Desk
from penstock.web.dashboard.live import Feed
from penstock.web.dashboard.pages import placeholder

MODULES: Final = (
    "overview",
    "jobs",
    "bulk",
    "job",
    "pipelines",
    "records",
    "tables",
    "items",
    "item",
    "workers",
    "login",
)


def _module(name: str) -> ModuleType | None:
    place = f"{__name__}.{name}"
    return import_module(place) if find_spec(place) is not None else None


_LOADED: Final = {name: _module(name) for name in MODULES}
"""Imported with this package, not when a dashboard is made: other threads run by then."""


def routes(desk: Desk) -> list[BaseRoute]:
    """Those of all pages."""
    found: list[BaseRoute] = []
    for name, module in _LOADED.items():
        found += placeholder.routes(desk, name) if module is None else module.routes(desk)
    return found


def feeds(desk: Desk) -> Mapping[str, Feed]:
    """Those of all pages, by name."""
    found: dict[str, Feed] = {}
    for module in _LOADED.values():
        make = getattr(module, "feeds", None)
        if make is not None:
            found.update(make(desk))
    return found
