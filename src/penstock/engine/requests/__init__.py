"""Every operation's request, written down, and checked as DynamoDB checks it.

shapes.py         what JSON a member takes, and its constraints: texts, numbers, lists, structures, attribute values
items.py          items, batches, transactions, PartiQL
tables.py         tables, tags, policies, backups, streams
aws_only.py       global tables, Contributor Insights, Kinesis destinations, bulk puts
transfers.py      exports and imports
error_wording.py  the faults of a request, and in which of its two wordings AWS refuses it
"""

from __future__ import annotations

from typing import Any

from penstock.engine.requests import aws_only, items, tables, transfers
from penstock.engine.requests.shapes import Request
from penstock.errors import UnknownOperationException

REQUESTS: dict[str, Request] = {**items.REQUESTS, **tables.REQUESTS, **transfers.REQUESTS, **aws_only.REQUESTS}


def check(operation: str, request: Any) -> dict[str, Any]:
    """The request, with the JSON types, required members and constraints that DynamoDB asks for.

    A right request comes back as it is; one that DynamoDB would convert ("true" for true, nulls, types of
    value it does not know) comes back converted. Raises SerializationException and ValidationException in
    DynamoDB's words.
    """
    shape = REQUESTS.get(operation)
    if shape is None:
        raise UnknownOperationException()
    return shape.check(request)


def look_closely(operation: str, request: Any) -> dict[str, Any]:
    """The same once more, for a request that `check` let pass because what it puts is measured later, and which failed.

    Equal to the request where that is not what is wrong with it.
    """
    return REQUESTS[operation].look_closely(request)
