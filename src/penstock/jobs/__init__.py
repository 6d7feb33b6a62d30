"""Durable jobs.

app.py          an app: its tasks, and the database of its jobs
tasks.py        a task and its options
context.py      what a task is given
attempt.py      the same, as the worker sees it: what is written under the lease
cron.py         when a schedule is due
app_names.py    `module:app` → the app
model/          a job as values, and what may happen to it (pure)
layouts/        how a job becomes items
store/          everything that may be done to a job in its tables
worker/         fetches jobs, runs their tasks, renews their leases
explain.py      why a job is not running
html_report.py  all of a job as one HTML file
iam_policy.py   the least IAM policy for programs of jobs
"""
