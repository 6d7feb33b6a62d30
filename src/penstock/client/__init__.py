"""One client for every DynamoDB.

database.py        connect() and Database
async_database.py  connect_async(): the same for asyncio, with its tables, scans, batches and transactions
models/            typed items: classes, and their tables' handles
tables/            a table's handle: its calls, transactions
batches/           batches of writes and reads that lose nothing
reads/             pages, parallel scans
items/             values, keys and expressions in Python and on the wire
wrappers/          around a transport: retries, pacing, metering, tracing, recording, faults
transports/        what answers `execute`: the embedded engine, HTTP, boto3
boto3/             boto3 clients that the embedded engine answers
remote_heat.py     what a running server tells of its hot keys
"""
