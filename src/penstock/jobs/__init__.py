"""Durable jobs.

app.py          an app: its tasks, and the database of its jobs
tasks.py        a task and its options
workflow.py     a task's durable operations: sleeps, waits for events, children
context.py      an attempt at a job, as its worker and as its task see it
cron.py         when a schedule is due
model/          a job as values, and what may happen to it (pure)
layouts/        how a job becomes items
store/          everything that may be done to a job in its tables
worker/         fetches jobs, runs their tasks, renews their leases
explain.py      why a job is not running
html_report.py  all of a job as one HTML file
iam_policy.py   the least IAM policy for programs of jobs
"""
