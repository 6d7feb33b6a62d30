"""The queue of Delphi's jobs.

layout.py         jobs as items of Delphi_JobQueue
poller.py         what puts jobs into the queue, and what runs them
child_process.py  the process of one job
"""
