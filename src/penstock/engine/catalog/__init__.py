"""Which tables there are, and what is known of each.

catalog.py       the tables of a file, cached and compared by version; the context of a call
table_schema.py  a table's definition, compiled: keys, indexes, projections
row_keys.py      keys as bytes; keys of requests checked against the schema
"""
