"""DynamoDB Streams.

stream_records.py   what changed in a table, in order, for 24 hours
shard_iterators.py  a place in a stream, as an opaque text
"""
