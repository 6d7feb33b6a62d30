"""Fields that a task declares secret, as they are shown: `@app.task(secret=("token", "order.card", "return.key"))`.

A path begins with a parameter, or with `return` for the result, and goes on with names of fields; lists on its way are
gone through. The paths are stored with the job, so that a program without the app masks them too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from penstock.jobs.model.job import BadJob

MASK: Final = "***"
RESULT: Final = "return"
MOST_SECRETS: Final = 100


def mask_arguments(arguments: Any, secret: Iterable[str]) -> Any:
    """The stored arguments without those that are secret."""
    for path in secret:
        if path.partition(".")[0] != RESULT:
            arguments = _mask(arguments, path.split("."))
    return arguments


def mask_result(result: Any, secret: Iterable[str]) -> Any:
    """The stored result without what is secret of it."""
    for path in secret:
        first, *rest = path.split(".")
        if first == RESULT:
            result = _mask(result, rest)
    return result


def _mask(value: Any, steps: list[str]) -> Any:
    if not steps:
        return None if value is None else MASK
    if isinstance(value, list):
        return [_mask(one, steps) for one in value]
    if isinstance(value, dict):
        return {name: _mask(one, steps[1:]) if name == steps[0] else one for name, one in value.items()}
    return value


def checked_secret(task: str, secret: Iterable[str], parameters: frozenset[str], *, any_name: bool) -> tuple[str, ...]:
    """The paths, each of which begins with a parameter or `return`."""
    if isinstance(secret, str):
        raise BadJob(f'secret is a list of names, such as ("{secret}",), not a text.')
    paths = tuple(secret)
    if len(paths) > MOST_SECRETS:
        raise BadJob(f"The task {task} has more than {MOST_SECRETS} secret fields: name the parameter that holds them.")
    for path in paths:
        if not isinstance(path, str) or not all(path.split(".")):
            raise BadJob(f"A secret field is a parameter and names below it, such as order.card, not {path!r}.")
        first = path.partition(".")[0]
        if first != RESULT and first not in parameters and not any_name:
            raise BadJob(f"The task {task} has no parameter {first!r}, which is declared secret.")
    return paths
