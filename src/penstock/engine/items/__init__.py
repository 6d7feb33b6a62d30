"""An item written, and all that is kept in step with it.

write_steps.py     one write: prepare, resolve, read, decide, apply; the one place where an item changes
usual_puts.py      the usual PutItem in one pass, held to these steps by a test
expiry_rows.py     which items end when (TTL)
pitr_journal.py    what each change has replaced, for point-in-time recovery
index_backfill.py  tables and indexes made and dropped; a new index filled, step by step
transactions.py    all of a list of writes, or none; idempotency tokens
bulk_rows.py       rows of plain puts and deletes, many to a statement; bulk load
capacity_units.py  what a call costs, and how that is reported
"""
