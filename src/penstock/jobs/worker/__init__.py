"""A worker.

worker.py      the threads, from start to stop
fetcher.py     which job is next; short jobs claimed and ended together
coroutines.py  async tasks: coroutines on one event loop, and how they are cancelled
wake_up.py     a write of others wakes it
invocation.py  how a task's function is called
log_context.py which job a log record is about
outcomes.py    what became of a job, stored and counted
heartbeat.py   leases renewed, time limits kept, a sign of life given
scheduler.py   jobs enqueued by the clock
registry.py    which workers there are
"""
