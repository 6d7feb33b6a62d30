"""Items in Python and on the wire.

values.py       Python's values ↔ DynamoDB's
keys.py         a table's key, and checks of it
expressions.py  F("status") == "queued", updates and selections → DynamoDB's expressions
failures.py     what a call may end with
"""
