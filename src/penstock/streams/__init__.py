"""Changes of a table, read by groups of consumers: checkpoints, leases over shards, at least once.

    for change in db.table("orders").changes(group="mailer"): …

In the order in which data flows:

    change.py       Change, made of a stream record
    errors.py       what can be wrong
    shard_tree.py   which shards may be read, and who should have which: pure functions
    group_table.py  the table `penstock-streams`: groups, checkpoints and leases of shards, failed changes, gaps
    shard_reader.py a shard from a place on: iterators, pages, trimmed data
    member.py       a consumer's part in its group: finds shards, takes, hands over
    consumer.py     Consumer: iterates over changes and batches, and runs a handler
    status.py       streams, groups, their lag; reset, redrive
"""
