"""Which tables there are, and what is known of each.

catalog.py       the tables of a file, cached and compared by version
table_schema.py  a table's definition, compiled: keys, indexes, projections; keys of requests checked against it
"""
