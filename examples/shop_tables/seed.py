"""Customers as the first version of the shop wrote them: one name, in one attribute."""

from __future__ import annotations

import penstock

NAMES = ["Ada Lovelace", "Grace Hopper", "Plato", "Katherine Johnson", "Mary Jackson"]

if __name__ == "__main__":
    with penstock.connect("shop.db") as db, db.table("customers").batch() as batch:
        for number, name in enumerate(NAMES):
            batch.put({"id": f"c{number}", "name": name, "email": f"{name.split()[0].lower()}@example.org"})
    print(len(NAMES), "customers")
