"""A job as values.

state.py        the one table of states and transitions
job.py          a job and its records; what is to be enqueued, and its rules
transitions.py  what may happen to a job, as pure functions
workflow.py     what a workflow keeps between its attempts
json_text.py    values as JSON text
other_words.py  words of other job systems, with ours
"""
