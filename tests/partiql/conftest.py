from __future__ import annotations

import pytest
from partiql_tables import table

from penstock.errors import ValidationException


class Statements:
    """Statements on one database, in wire JSON."""

    def __init__(self, db):
        self.db = db

    def run(self, statement, *parameters, **more):
        request = {"Statement": statement, **({"Parameters": list(parameters)} if parameters else {}), **more}
        return self.db.execute("ExecuteStatement", request)

    def items(self, statement, *parameters, **more):
        return self.run(statement, *parameters, **more)["Items"]

    def refusal(self, statement, *parameters, **more):
        """The text with which a statement is refused."""
        with pytest.raises(ValidationException) as refused:
            self.run(statement, *parameters, **more)
        return refused.value.message

    def batch(self, *statements, **more):
        return self.db.execute("BatchExecuteStatement", {"Statements": _members(statements), **more})

    def transact(self, *statements, **more):
        return self.db.execute("ExecuteTransaction", {"TransactStatements": _members(statements), **more})

    def put(self, name, **item):
        self.db.execute("PutItem", {"TableName": name, "Item": item})

    def get(self, name, **key):
        answer = self.db.execute("GetItem", {"TableName": name, "Key": {n: {"S": v} for n, v in key.items()}})
        return answer.get("Item")


def _members(statements):
    return [one if isinstance(one, dict) else {"Statement": one} for one in statements]


@pytest.fixture
def sql(penstock_db):
    """Tables `one` (pk), `two` (pk, sk) and `num` (pk a number)."""
    for request in (table("one"), table("two", sort="S"), table("num", hash_kind="N")):
        penstock_db.execute("CreateTable", request)
    return Statements(penstock_db)
