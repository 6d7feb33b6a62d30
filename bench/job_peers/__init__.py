"""Job systems under measurement, one file each, run in each system's own environment.

Each module has `prepare()` (schemas and the like), `enqueue(count)` (no-op jobs, one call a job), `enqueue_steps()`
(the one long job), and `left()` (jobs that are not finished, as far as the system can tell).
Some have `enqueue_all(count)`: many by one call.
"""
