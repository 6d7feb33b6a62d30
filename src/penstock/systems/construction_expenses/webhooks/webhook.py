"""A webhook as Paddle sends it: read from JSON, checked before anything is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from penstock.client.items.values import InvalidValue, Item, decode_item, encode_item
from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.wire.values import item_size

PAYLOAD_BYTES = 300_000
"""Room is left in the 400 KB of an item for the history of its attempts."""

NAME_BYTES = 1_000
"""Of its id and its type, which are keys: DynamoDB takes 2,048, and a dead letter's id is longer than its webhook's."""

# Paddle Billing's names, Paddle Classic's, and the tables' own.
_ID_NAMES = ("event_id", "alert_id", "webhookId")
_TYPE_NAMES = ("event_type", "alert_name", "alertName", "eventType")
_TIME_NAMES = ("occurred_at", "event_time", "occurredAt")


class BadWebhook(PenstockError):
    """It lacks what every webhook has, or has what no table can hold. Trying again does not help."""


class WebhookDiffers(PenstockError):
    """An id that is known came with another payload."""

    def __init__(self, webhook_id: str) -> None:
        super().__init__(
            f"{webhook_id}: a webhook with this id and another payload was received before. "
            "Nothing was changed: an id names one event."
        )
        self.webhook_id = webhook_id


@dataclass(frozen=True, slots=True)
class Webhook:
    webhook_id: str
    event_type: str
    payload: Item
    """In the values that it has when it is read from a table."""

    @property
    def occurred_at(self) -> str | None:
        """When it happened, as the tables write times; None if it does not say."""
        for name in _TIME_NAMES:
            if self.payload.get(name) is not None:
                return moment_text(name, self.payload[name])
        return None


def webhook_of(form: object) -> Webhook:
    """A webhook from its JSON. Raises BadWebhook with what is wrong."""
    if not isinstance(form, Mapping):
        raise BadWebhook(f"a webhook is a JSON object, not {type(form).__name__}")
    webhook = Webhook(_text(form, _ID_NAMES), _text(form, _TYPE_NAMES), _storable(form))
    _ = webhook.occurred_at  # a time that is none is refused now
    return webhook


def read_webhooks(text: bytes) -> list[Webhook]:
    """The webhooks of a file: a JSON object, a JSON array of them, or one on each line."""
    try:
        read = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        read = _lines(text, error)
    return [webhook_of(form) for form in (read if isinstance(read, list) else [read])]


def _lines(text: bytes, error: orjson.JSONDecodeError) -> list[object]:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2:
        raise BadWebhook(f"this is no JSON: {error}") from error
    forms = []
    for number, line in enumerate(lines, start=1):
        try:
            forms.append(orjson.loads(line))
        except orjson.JSONDecodeError as wrong:
            # With one document over several lines, it is the document that is wrong.
            message = f"line {number} is no JSON: {wrong}" if number > 1 else f"this is no JSON: {error}"
            raise BadWebhook(message) from wrong
    return forms


def _storable(form: Mapping[str, Any]) -> Item:
    try:
        encoded = encode_item({"payload": form})["payload"]["M"]  # as it will stand in an item
    except InvalidValue as error:
        raise BadWebhook(f"the payload cannot be stored: {error}") from error
    if item_size(encoded) > PAYLOAD_BYTES:
        raise BadWebhook(f"the payload has {item_size(encoded):,} bytes, and {PAYLOAD_BYTES:,} are taken")
    return decode_item(encoded)


def _text(form: Mapping[str, Any], names: tuple[str, ...]) -> str:
    found = first_text(form, names)
    if found is None:
        raise BadWebhook(f"a webhook has {' or '.join(names[:2])}, a text that is not empty; this one has neither")
    if len(found.encode(errors="replace")) > NAME_BYTES:
        raise BadWebhook(f"{' or '.join(names[:2])} has more than {NAME_BYTES:,} bytes")
    return found


def first_text(form: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """The first of these members that is a text with something in it, or a whole number: Classic's ids are numbers."""
    for name in names:
        value = form.get(name)
        if isinstance(value, bool):
            continue
        if isinstance(value, int) or (isinstance(value, str) and value):
            return str(value)
    return None


def moment_text(name: str, value: object) -> str:
    """A time as the tables write it. Raises BadWebhook."""
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        raise BadWebhook(f"{name}: {value!r} is no time, such as 2025-06-16T21:19:33.789Z") from None
    return utc_text((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp())
