"""Durable jobs.

app.py          an app: its tasks, and the database of its jobs
async_app.py    the same verbs, awaited
tasks.py        a task and its options
job_queries.py  app.jobs: finds jobs, and changes many at once
context.py      an attempt at a job, as its worker and as its task see it
cron.py         when a schedule is due
log_capture.py  what a task logs, in its job's log
tracing.py      spans of OpenTelemetry, where a program has loaded it
model/          a job as values, and what may happen to it (pure)
layouts/        how a job becomes items
store/          everything that may be done to a job in its tables
metrics/        counters, gauges and histograms, as Prometheus' text
worker/         fetches jobs, runs their tasks, renews their leases
explain.py      why a job is not running
forms.py        a job as JSON
html_report.py  all of a job as one HTML file
iam_policy.py   the least IAM policy for programs of jobs
"""
