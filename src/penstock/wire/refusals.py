"""Values that DynamoDB refuses in two wordings.

AWS checks attribute values in one of two layers, and the operation decides which: the older one (batches of writes,
transactions, Scan, PartiQL) or the current one (docs/decisions/0004-wording.md). Numbers and duplicates in sets are
worded differently; of these, of nesting and of empty names, only the older layer names the placeholder that holds it.
"""

from __future__ import annotations

from penstock.errors import ValidationException


class RefusedValue(ValidationException):
    """`message` is the older layer's text, `current` the other's (the same if it is not given)."""

    def __init__(self, older: str, current: str | None = None) -> None:
        super().__init__(older)
        self.current = older if current is None else current

    @property
    def code(self) -> str:
        return "ValidationException"
