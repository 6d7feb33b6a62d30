"""Durable jobs.

app.py           an app: its tasks, and the database of its jobs
async_app.py     the same verbs, awaited
tasks.py         a task and its options
job_queries.py   app.jobs: finds jobs, and changes many at once
workflow.py      a task's durable operations: sleeps, waits for events, children
context.py       an attempt at a job, as its worker and as its task see it
task_defaults.py what a task gives its jobs: keys of their arguments, limits, a rate
hooks.py         the user's functions around attempts, and after their ends
webhooks.py      the delivery of a job's webhook, by a task of Penstock's own
scheduler/       jobs by the clock: cron, schedules in the table
triggers.py      tasks that run for each change of a table
sources.py       where jobs are: the tables of apps and of systems
log_capture.py   what a task logs, in its job's log
tracing.py       spans of OpenTelemetry, where a program has loaded it
model/           a job as values, and what may happen to it (pure)
layouts/         how a job becomes items
store/           everything that may be done to a job in its tables
metrics/         counters, gauges and histograms, as Prometheus' text
worker/          fetches jobs, runs their tasks, renews their leases
copies/          a job brought home: copied, run in the foreground, forked
explain.py       why a job is not running
forms.py         a job as JSON
html_report.py   all of a job as one HTML file
iam_policy.py    the least IAM policy for programs of jobs
"""
