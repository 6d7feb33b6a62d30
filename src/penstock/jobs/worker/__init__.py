"""A worker.

worker.py        the threads, from start to stop
registry.py      which workers there are, and which schedules have fired
fetcher.py       where its threads get jobs from
group_commit.py  short jobs claimed and ended together
invocation.py    how a task's function is called
context.py       what a task is given
heartbeat.py     leases renewed, time limits kept, schedules fired
outcomes.py      what became of a job, stored and counted
"""
