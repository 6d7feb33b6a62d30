"""Jobs in tables.

store.py               the facade
enqueue.py             a job made, once for its key
payloads.py            arguments and results, kept where they fit
claims.py              a job becomes a worker's
conditional_writes.py  a change written, on the version that it was made from
queries.py             jobs found and read
dependencies.py        jobs that wait for others
side_items.py          queues, unique keys, limits, which stand beside the jobs
retention.py           when jobs expire
"""
