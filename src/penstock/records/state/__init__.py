"""What a record says of the work on it.

record_state.py      one attribute: who works on it, and what became of it (pure)
answers.py           what comes of asking for a record
steps.py             conversations with the database as generators
store.py             claims, renewals and ends, each one conditional UpdateItem
other_processors.py  processors of other processes, seen by their leases
failed_records.py    failed records, listed and made pending again
"""
