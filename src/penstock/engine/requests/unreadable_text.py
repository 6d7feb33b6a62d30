"""What is told of a call that has failed in a way that DynamoDB's language has no words for.

All of it is looked for after something has gone wrong, so that right requests pay nothing for it: names that are not
texts, and texts with half a surrogate pair, which no JSON could have brought; and which tables a request means.
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


def tables_meant(request: Any) -> str:
    """The names of the tables that a request names in any of DynamoDB's ways, `orders and customers`; "" for none."""
    if not isinstance(request, dict):
        return ""
    actions = [one for action in request.get("TransactItems") or () for one in action.values()]
    named = [one.get("TableName") for one in (request, *actions) if isinstance(one, dict)]
    names = dict.fromkeys(str(name) for name in [*named, *(request.get("RequestItems") or ())] if name)
    return " and ".join(names)
