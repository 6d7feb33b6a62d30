"""Durable jobs.

app.py          an app: its tasks, and the database of its jobs
tasks.py        a task and its options
app_names.py    `module:app` → the app
model/          a job as values, and what may happen to it (pure)
layouts/        how a job becomes items
store/          everything that may be done to a job in its tables
worker/         takes jobs, runs their tasks, keeps their leases
scheduler/      jobs by the clock
explain.py      why a job is not running
html_report.py  all of a job as one HTML file
iam_policy.py   the least IAM policy for programs of jobs
"""
