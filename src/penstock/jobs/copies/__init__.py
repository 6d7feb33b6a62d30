"""A job brought home: copied into a local file, run there in the foreground, forked into a new job.

transfer.py       jobs copied: pulled into a local file, forked into a new job
table_items.py    items that a job needs, copied with it
debugger.py       an attempt at a copy, in the foreground
network_block.py  a process that cannot connect to anything
"""
