"""The project's jobs. An app's `tasks.py` imports `app` and `with_connections`; copy this file into your project."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.db import close_old_connections

import penstock

P = ParamSpec("P")
R = TypeVar("R")

app = penstock.App(settings.PENSTOCK_DB)


def with_connections(function: Callable[P, R]) -> Callable[P, R]:
    """Closes Django's old connections around a task, as Django does around a request.

    A worker's thread lives for days; a connection may not. It is closed when it is broken or older than CONN_MAX_AGE.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            close_old_connections()

    return call
