"""The order example in a process that kills itself once: before or after one of the things that it does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import orders

orders.REVIEW_AFTER = timedelta(seconds=0.2)
if os.environ.get("ORDERS_EXPIRE"):
    orders.APPROVAL_TIME = timedelta(seconds=0.2)
app = orders.app

where, _, what = os.environ.get("ORDERS_DIE", "").partition(" ")
marker = Path(os.environ.get("ORDERS_MARKER", "died"))


def dying(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if where == "before":
            die()
        value = function(*args, **kwargs)
        if where == "after":
            die()
        return value

    return call


def die() -> None:
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)


if what in ("charge", "refund", "mail"):
    setattr(orders, what, dying(getattr(orders, what)))
elif what == "ship":
    orders.ship.function = wraps(orders.ship.function)(dying(orders.ship.function))
