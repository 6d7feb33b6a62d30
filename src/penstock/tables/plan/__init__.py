"""From live tables and definitions to a plan.

survey.py    tables as they are, and a fleet of them beside what it should be
plan.py      one class a change, the diff, what a change costs, the plan of a fleet (pure)
render.py    a plan for people and for programs
failures.py  what went wrong with a table, and what to do
"""
