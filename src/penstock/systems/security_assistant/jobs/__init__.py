"""A drawing's job, from its submission to its end.

names.py        names of companies, clients and projects in keys and paths
job.py          a job and its events as values and as items
submission.py   a drawing that is handed in becomes a job
stages.py       what is done to it
transitions.py  what may happen to it, as pure functions
processor.py    the worker
store.py        what a store of jobs promises
table_store.py  jobs in DynamoDB tables
json_store.py   jobs in one jobs.json
copy.py         jobs from one store to another
storage.py      jobs and files as one
"""
