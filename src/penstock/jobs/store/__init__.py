"""Jobs in tables.

store.py               enqueue, claim, report, complete, fail, cancel, retry: all that may be done to a job
payloads.py            arguments and results, kept where they fit
conditional_writes.py  a change written, on the version that it was made from
queries.py             jobs found and read
dependencies.py        jobs that wait for others
workflows.py           waits, events and children of jobs whose tasks wait
side_items.py          queues, unique keys, concurrency limits, which stand beside the jobs
retention.py           when jobs expire
patience.py            calls that wait for a database that is away
turns.py               which of the ready jobs is next: tenants take turns
"""
