"""What a user's own module looks like: mypy checks it strictly, and a test runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import penstock
from penstock import F
from penstock.client.wrappers.pacing import Pacer


@dataclass(frozen=True)
class Company:
    id: str
    email: str
    rate: Decimal


def create_table(db: penstock.Database) -> None:
    db.execute(
        "CreateTable",
        {
            "TableName": "companies",
            "KeySchema": [{"AttributeName": "companyId", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "companyId", "AttributeType": "S"}],
            "BillingMode": "PAY_PER_REQUEST",
        },
    )


def register(db: penstock.Database, company: Company) -> bool:
    """False if there is one with its id already."""
    item = {"companyId": company.id, "email": company.email, "rate": company.rate}
    try:
        db.table("companies").put(item, if_=F("companyId").missing())
    except penstock.ConditionFailed as failed:
        there: dict[str, Any] | None = failed.item
        assert there is not None
        return False
    return True


def load(db: penstock.Database, companies: Iterable[Company]) -> int:
    with db.table("companies").batch(workers=2, duplicates="last") as batch:
        for company in companies:
            batch.put({"companyId": company.id, "email": company.email, "rate": company.rate})
    report = batch.report
    return report.done


def rates(db: penstock.Database) -> dict[str, Decimal]:
    table = db.table("companies", key="companyId:S")
    expensive = (F("rate") > Decimal("0.2")) & ~F("email").begins_with("test@") | F("vip").exists()
    found = table.scan(filter=expensive, select=["companyId", F("rate")], limit=100)
    by_id: dict[str, Decimal] = {item["companyId"]: item["rate"] for item in found}
    place: str | None = found.token
    assert place is None or isinstance(place, str)
    return by_id


def count_visit(db: penstock.Database, company_id: str) -> int:
    after = db.table("companies").update(
        {"companyId": company_id}, set={"visits": F("visits").if_missing(0) + 1}, return_new=True
    )
    assert after is not None
    visits: int = after["visits"]
    return visits


def move(db: penstock.Database, old: str, new: str) -> None:
    table = db.table("companies")
    item = table.get({"companyId": old}, consistent=True)
    if item is None:
        return
    with db.transaction() as tx:
        tx.delete(table, {"companyId": old}, if_=F("email") == item["email"])
        tx.put(table, {**item, "companyId": new}, if_=F("companyId").missing())


def count(db: penstock.Database) -> int:
    with db.table("companies").parallel_scan(segments=2, workers=2, pace=Pacer(1_000)) as scan:
        total = sum(1 for _ in scan)
    tokens: list[str | None] = scan.tokens
    assert tokens == [None, None]
    return total


async def email_of(db: penstock.AsyncDatabase, company_id: str) -> str | None:
    item = await db.table("companies").get({"companyId": company_id}, select=["email"])
    return None if item is None else str(item["email"])


async def ids(db: penstock.AsyncDatabase) -> list[str]:
    return sorted([item["companyId"] async for item in db.table("companies").scan()])


async def visit(path: str) -> list[str]:
    async with penstock.connect_async(path) as db:
        await db.table("companies").update({"companyId": "c9"}, add={"visits": 1})
        assert await email_of(db, "c1") == "a@example.org"
        return await ids(db)


def main(path: str) -> list[str]:
    with penstock.connect(path) as db:
        create_table(db)
        assert register(db, Company("c1", "a@example.org", Decimal("0.17")))
        assert not register(db, Company("c1", "b@example.org", Decimal("0.17")))
        assert load(db, [Company(f"c{n}", "x@example.org", Decimal(n) / 10) for n in range(2, 5)]) == 3
        assert rates(db) == {"c3": Decimal("0.3"), "c4": Decimal("0.4")}
        assert count_visit(db, "c1") == 1
        move(db, "c4", "c5")
        assert count(db) == 4
    return asyncio.run(visit(path))
