"""A customer has a first and a last name, so that letters can begin with one of them."""

from __future__ import annotations

from typing import Any

from penstock import F

table = "customers"
where = F("name").exists()


def up(item: dict[str, Any]) -> dict[str, Any]:
    item["first"], _, item["last"] = item.pop("name").partition(" ")
    return item


def down(item: dict[str, Any]) -> dict[str, Any]:
    if "first" in item:
        item["name"] = f"{item.pop('first')} {item.pop('last')}".strip()
    return item
