"""The construction-expenses application: 13 tables of companies, payments and webhooks (S1).

tables.py            the 13 tables
books.py             each of them with the reads that its indexes are there for
money.py             amounts in minor units

signatures.py        who sent a webhook: Paddle Billing's and Classic's signatures
http.py              the receiver over HTTP
receiver.py          a webhook is verified, recorded and left to a job
webhook.py           a webhook, read and checked
webhook_record.py    its record, and how it changes
intake.py            attempts, retries, dead letters, replays
paddle.py            what Paddle's events mean for the books
subscriptions.py     which of a company's subscriptions counts
job_source.py        webhooks as jobs, for `penstock jobs`

expense_file.py      expenses from anybody's CSV file
expenses.py          imported once, and added up

commands.py          `penstock construction`, with expense_commands.py and table_commands.py
sample.py, demo.py   sample companies, and a small showing
"""

from penstock.registry import Commands, System
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
    jobs=(f"{__name__}.job_source:webhook_source",),
)
