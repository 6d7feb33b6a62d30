"""A process that receives webhooks: `python construction_receiver.py FILE OWNER WEBHOOKS`, for tests with several.

Each webhook that it handles is a line of its output, and adds one to an item of the companies. With the owner `doomed`,
the process ends in the middle of its first one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from construction_world import TEST, webhook

from penstock.client.database import connect
from penstock.client.tables.transactions import Action
from penstock.systems.construction_expenses.books import Books
from penstock.systems.construction_expenses.webhooks.intake import Intake
from penstock.systems.construction_expenses.webhooks.webhook import Webhook


def main(path: str, owner: str, number: int) -> None:
    def counted(received: Webhook, books: Books) -> Iterable[Action]:
        if owner == "doomed":
            os._exit(9)
        print(received.webhook_id, flush=True)
        return [books.companies.table.update_action({"companyId": received.webhook_id}, add={"handled": 1})]

    with connect(path) as db:
        intake = Intake(Books(db, TEST), counted, owner=owner, wait=None)
        for one in range(number):
            intake.receive(webhook(one))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
