"""The construction-expenses application: 13 tables of companies, payments and webhooks (S1).

tables.py            the 13 tables
books.py             each of them with the reads that its indexes are there for
money.py             amounts in minor units

webhooks/            Paddle's webhooks, from the request to the books
expenses/            expenses, from a CSV file to their totals

place.py             which tables a command means, and how it shows a page of items
commands.py          `penstock construction`, with expenses/commands.py and table_commands.py
sample.py, demo.py   sample companies, and a small showing
"""

from penstock.registry import Commands, JobTables, System
from penstock.tables.definitions.system_tables import SystemTables

SYSTEM = System(
    "construction-expenses",
    "Construction expenses",
    commands=Commands(
        "construction",
        "Construction expenses: companies, webhooks, dead letters.",
        f"{__name__}.commands:command",
    ),
    tables=SystemTables(f"{__name__}.tables", prefix="construction-expenses"),
    demo=f"{__name__}.demo:demo",
    jobs=(
        JobTables(f"{__name__}.webhooks.job_source:webhook_source", (("webhookId",),)),
        JobTables(f"{__name__}.webhooks.job_source:webhook_work_source", (("job_id", "record"),), "paddle-webhooks"),
    ),
)
