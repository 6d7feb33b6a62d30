"""A table's handle.

values.py           Python's values ↔ DynamoDB's
keys.py             a table's key, and checks of it
conditions.py       F("status") == "queued"
expression_text.py  conditions, updates and selections → DynamoDB's expressions
requests.py         calls as values: an operation, its request, how to read the answer
table_actions.py    actions of transactions
table_calls.py      what a table can be asked, for threads and for asyncio
table.py            for threads
async_table.py      for asyncio
transactions.py     up to 100 actions, all or none
failures.py         what a call may end with
"""
