"""An item written, and all that is kept in step with it.

item_keys.py           keys of a request, checked against the table's schema
write_steps.py         one write: prepare, resolve, read, decide, apply
changes.py             the one place where an item changes
index_rows.py          index rows that point at it
item_collections.py    the items of one partition, which local indexes bound to 10 GB
transactions.py        all of a list of writes, or none
idempotency_tokens.py  a transaction that is repeated with its token
bulk_rows.py           rows of plain puts and deletes, many to a statement
bulk_load.py           many of them in one transaction, for a load in process
"""
