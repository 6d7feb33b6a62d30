"""The queue of Delphi's jobs.

layout.py  jobs as items of Delphi_JobQueue
poller.py  what puts jobs into the queue, what runs them, and the process of each
"""
