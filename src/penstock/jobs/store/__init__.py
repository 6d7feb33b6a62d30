"""Jobs in tables.

store.py               enqueue, claim, report, complete, fail, cancel, retry: all that may be done to a job
enqueue.py             new jobs, and the write that makes them
payloads.py            arguments and results, kept where they fit
conditional_writes.py  a change written, on the version that it was made from
queries.py             jobs found and read
transactions.py        a job that is enqueued in a transaction of the user's own
dependencies.py        jobs that wait for others
workflows.py           waits, events and children of jobs whose tasks wait
pools.py               jobs that a limit, or the lack of their task, keeps from starting
rates.py               slots of rate keys, without which their jobs do not start
side_items.py          queues, unique keys, concurrency limits, which stand beside the jobs
retention.py           when jobs expire
patience.py            calls that wait for a database that is away
conditions.py          what derives the states that people think in
depths.py              how many jobs wait
turns.py               which of the ready jobs is next: tenants take turns
"""
