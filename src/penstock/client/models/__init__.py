"""Typed items: a class, its table, and the items of it.

attributes.py      `Attr[T]` and `attr(…)`: an attribute in a class, and in an expression
converters.py      an annotation's values in Python and on the wire
plain_classes.py   the reader of a page and the writer of a plain class
records.py         the compiled reader and writer of a class
model.py           `@item`: a class with its table's key, indexes, TTL and version
item_requests.py   what is sent for an instance or a key, and versions
key_conditions.py  the key that a query's conditions are of
item_batches.py    batches of instances
item_table.py      the handle: `db.table(User)`, also for asyncio
"""
