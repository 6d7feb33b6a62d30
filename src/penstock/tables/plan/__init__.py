"""From live tables and definitions to a plan.

survey.py    tables as they are, and a fleet of them beside what it should be
changes.py   one class a change, what it costs, what it is called (pure)
plan.py      the diff, and the plan of a fleet (pure)
render.py    a plan as text, styled lines and JSON (pure)
failures.py  what went wrong with a table, and what to do
"""
