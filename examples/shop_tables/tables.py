"""The tables of a shop, as code."""

from __future__ import annotations

from penstock import Index, Table

customers = Table("customers", key="id:S", indexes=[Index("by-email", "email:S")], pitr=True)
orders = Table(
    "orders",
    key=("customer:S", "order:S"),
    indexes=[Index("by-state", "state:S", "placed_at:S", projection="KEYS_ONLY")],
    ttl="expires_at",
)

ALL = [customers, orders]
