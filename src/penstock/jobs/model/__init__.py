"""A job as values.

state.py        the one table of states and transitions
derived_state.py  the states that people think in, derived from those and the clock
job.py          a job and its records; what is to be enqueued, and its rules
transitions.py  what may happen to a job, as pure functions
rate.py         how often jobs with one key may start
webhook.py      the job that delivers the webhook of another's end
workflow.py     what a workflow keeps between its attempts
typed_values.py values of annotated types as JSON, and back
secret_fields.py  what no screen shows of arguments and results
json_text.py    values as JSON text
other_words.py  words of other job systems, with ours
"""
