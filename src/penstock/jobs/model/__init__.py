"""A job as values.

state.py        the one table of states and transitions
job.py          a job and its records; what is to be enqueued, and its rules
transitions.py  what may happen to a job, as pure functions
rate.py         how often jobs with one key may start
webhook.py      the job that delivers the webhook of another's end
json_text.py    values as JSON text
other_words.py  words of other job systems, with ours
"""
