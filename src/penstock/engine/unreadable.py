"""Requests that no JSON could have brought: only calls in process come with them.

Names that are not texts, and texts with half a surrogate pair, are looked for after something has gone wrong, so that
right requests pay nothing for it.
"""

from __future__ import annotations

from typing import Any

from penstock.errors import SerializationException


def refuse_unreadable(request: Any) -> None:
    """Refuses a request that cannot be written as JSON; returns if it can."""
    waiting = [request]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value)
            waiting.extend(value.values())
            if not all(isinstance(name, str) for name in value):
                raise SerializationException("A name in the request is not a string")
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, str) and not _is_unicode(value):
            raise SerializationException("A string of the request is not valid Unicode")


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
