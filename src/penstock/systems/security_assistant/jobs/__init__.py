"""A drawing's job, from its submission to its end.

job.py          a job, its names and its events, as values and as items
stages.py       a drawing becomes a job; what is done to it
transitions.py  what may happen to it, as pure functions
processor.py    the worker
store.py        what a store of jobs promises; jobs from one store to another
table_store.py  jobs in DynamoDB tables
json_store.py   jobs in one jobs.json
storage.py      jobs and files as one, and which storage is meant
"""
