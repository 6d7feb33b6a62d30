"""An item as the bytes of its JSON, by a maker in the same process who has checked and measured it.

1. It is what `check_item` and `orjson.dumps` would have made of the item: the same JSON, the same size.
2. `keys` are those of its attributes that are named in `names`, and nothing of them is missing: who needs another one
   decodes the item.

It stands for the item of a PutItem, where a database says that it takes such (`Capabilities.takes_encoded_items`).
"""

from __future__ import annotations

import orjson

from penstock.wire.values import Item


class EncodedItem:
    """Nobody changes it, nor what it holds."""

    __slots__ = ("data", "keys", "names", "size")

    def __init__(self, data: bytes, size: int, keys: Item, names: frozenset[str]) -> None:
        self.data = data
        self.size = size
        """In bytes, as DynamoDB counts them."""
        self.keys = keys
        self.names = names

    def decode(self) -> Item:
        """The item."""
        item: Item = orjson.loads(self.data)
        return item
