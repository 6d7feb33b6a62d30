"""The command line, on a small kit. Each command parses, calls and prints.

main.py    the root group, and where each command is
database/  serve, dynamodb-local, quickstart, backup, repair, heat
tables/    tables as code, and tables' data
items/     items, sql
streams.py, records.py, files.py
jobs/      worker, jobs, schedules
up.py      the dashboard, with a worker and an endpoint if asked
demo.py    the installed systems on an embedded database
kit/       what all of them share
"""
