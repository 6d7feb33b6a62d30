"""From live tables and definitions to a plan.

survey.py    tables as they are, and a fleet of them beside what it should be
changes.py   one class a change, what it costs, what it is called (pure)
plan.py      the diff, the plan of a fleet, and how it is shown (pure)
failures.py  what went wrong with a table, and what to do
"""
