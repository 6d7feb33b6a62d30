"""Jobs by the clock. A worker enqueues those that are due (`worker/scheduler.py`).

cron.py       when a schedule is due
schedules.py  schedules in the table: declared in code, or created at runtime
"""
