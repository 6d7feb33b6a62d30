"""A table while it changes, as its description tells: whether it is settled, how far it is, what is done already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.tables.apply.change_requests import Request
from penstock.tables.definitions import aws_shapes
from penstock.tables.plan.changes import AddIndex, Change, ClearStream, DropIndex, RemoveTags, SetStream, SetTags
from penstock.tables.plan.costs import fill_seconds

Json = dict[str, Any]


def status_of(description: Json) -> str:
    return str(description.get("TableStatus", "ACTIVE"))


def indexes_of(description: Json) -> list[Json]:
    return description.get("GlobalSecondaryIndexes") or []


def is_settled(description: Json) -> bool:
    still = all(one.get("IndexStatus", "ACTIVE") == "ACTIVE" for one in indexes_of(description))
    return status_of(description) == "ACTIVE" and still


def state_of(description: Json) -> str:
    """In words, for whoever waits: `UPDATING`, or `CREATING index by-due`."""
    moving = (one for one in indexes_of(description) if one.get("IndexStatus", "ACTIVE") != "ACTIVE")
    index = next(moving, None)
    return status_of(description) if index is None else f"{index['IndexStatus']} index {index['IndexName']}"


def is_done(change: Change, description: Json) -> bool:
    """Whether a table has what a change would give it, as far as that can be seen: somebody else may have been quicker,
    or this run's own call may have been lost on its way back.
    """
    live = aws_shapes.from_description(description)
    match change:
        case AddIndex(index):
            there = live.index(index.name)
            return there is not None and there.shape == index.shape
        case DropIndex(index):
            return live.index(index.name) is None
        case SetStream(view):
            return live.stream == view
        case ClearStream():
            return live.stream is None
        case _:
            return False


def with_definitions(request: Request, change: Change, description: Json) -> Request:
    """A new index needs the types of its key; moto takes those that it is sent for all that there are, so all are."""
    if not isinstance(change, AddIndex):
        return request
    every = {*aws_shapes.from_description(description).attributes, *change.attributes}
    definitions = aws_shapes.attribute_definitions(sorted(every))
    return Request(request.operation, {**request.body, "AttributeDefinitions": definitions})


def are_seen(change: SetTags | RemoveTags, tags: Mapping[str, str]) -> bool:
    if isinstance(change, SetTags):
        return change.tags.items() <= tags.items()
    return tags.keys().isdisjoint(change.keys)


def percent_of(description: Json, index: Json, elapsed: float, adding: AddIndex | None) -> int | None:
    """By the index's own count of items where it has one (AWS counts every six hours), else by the time it takes."""
    items = int(description.get("ItemCount") or 0)
    if not items:
        return None
    by_count = int(index.get("ItemCount") or 0) / items
    expected = fill_seconds(adding.index, items) if adding is not None else 0.0
    by_time = elapsed / expected if expected else 0.0
    return min(99, round(100 * max(by_count, by_time)))
