"""An order: it is paid, a person approves it within three days, its parcels are sent, and a month later comes a mail.

    python orders.py desk chair                       makes an order, and prints the id of its job
    penstock worker orders:app                        runs it
    penstock jobs why JOB                             says what it waits for
    penstock jobs send JOB approval '{"by": "ada"}'   approves it

Kill the worker whenever you like, and start another one: the order continues where it was. What the shop has done is in
`ledger.txt`. A real shop would call its payment service there, with the same key each time: a process may die between
the call and the moment in which its result is stored, and then the call is made again.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import penstock

APPROVAL_TIME = timedelta(days=3)
REVIEW_AFTER = timedelta(days=30)

app = penstock.App(os.environ.get("PENSTOCK_DB", "orders.db"))


@app.task(retries=5)
async def order(ctx: penstock.AsyncJobContext, items: list[str]) -> str:
    payment = await ctx.step("charge", lambda: charge(ctx.id, 10 * len(items)))
    approval = await ctx.wait_for("approval", timeout=APPROVAL_TIME)  # no worker is held meanwhile
    if approval is None:
        await ctx.step("refund", lambda: refund(payment))
        return "expired"
    parcels = await ctx.gather(ctx.enqueue(ship, item=item, to=ctx.id) for item in items)
    await ctx.sleep(REVIEW_AFTER)
    await ctx.step("ask for a review", lambda: mail(ctx.id))
    return f"{len(parcels)} parcels, approved by {approval['by']}"


@app.task(retries=5)
def ship(item: str, to: str) -> str:
    book(f"ship {item} {to}")
    return f"parcel with {item}"


def charge(order_id: str, amount: int) -> dict[str, Any]:
    book(f"charge {amount} {order_id}")
    return {"order": order_id, "amount": amount}


def refund(payment: dict[str, Any]) -> None:
    book(f"refund {payment['amount']} {payment['order']}")


def mail(order_id: str) -> None:
    book(f"mail {order_id}")


def book(line: str) -> None:
    """Writes a line once, whoever asks again: it is its own idempotency key."""
    ledger = Path(os.environ.get("ORDERS_LEDGER", "ledger.txt"))
    if not ledger.exists() or line not in ledger.read_text().splitlines():
        with ledger.open("a") as file:
            file.write(f"{line}\n")


if __name__ == "__main__":
    print(order.enqueue(items=sys.argv[1:] or ["desk"]).id)
