"""Where attempts run.

attempts.py   one attempt: the function on one record
executors.py  in the worker's thread, or on any `concurrent.futures.Executor`
forks.py      work that forks, and signals
"""
