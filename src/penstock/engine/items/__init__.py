"""An item written, and all that is kept in step with it.

table_schema.py       keys of a request, checked against the table's schema
write_steps.py     one write: prepare, resolve, read, decide, apply
changes.py         the one place where an item changes, and its index rows with it
expiry_rows.py     which items end when (TTL)
journal.py         what each change has replaced, for point-in-time recovery
index_backfill.py  tables and indexes made and dropped; a new index filled, step by step
transactions.py    all of a list of writes, or none; idempotency tokens
bulk_rows.py       rows of plain puts and deletes, many to a statement; bulk load
capacity_units.py  what a call costs, and how that is reported
"""
