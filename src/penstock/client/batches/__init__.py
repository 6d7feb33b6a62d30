"""Batches.

batch_queue.py    what a batch of writes still has to do, and in which order (pure)
batches.py        batches of writes, for threads
local_writes.py   a batch to the engine in this process
batch_reads.py    any number of keys, in their order
"""
