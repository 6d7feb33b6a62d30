"""Batches.

batch_queue.py     what a batch of writes still has to do (pure)
batches.py         batches of writes, for threads
async_batches.py   for asyncio
held_writes.py     a long batch sent in the order in which Penstock keeps items
local_writes.py    a batch to the engine in this process
measured_items.py  an item encoded and measured in one walk
batch_reads.py     any number of keys, in their order
"""
