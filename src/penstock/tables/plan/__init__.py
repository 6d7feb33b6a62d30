"""From live tables and definitions to a plan.

survey.py      tables as they are, and a fleet of them beside what it should be
changes.py     one class a change, what it costs, what it is called (pure)
plan.py        the diff, and the plan of a fleet (pure)
created.py     a new table in full (pure)
estimate.py    time and money of a whole plan (pure)
orphans.py     tables with our tags that no definition names
unmanaged.py   what a table has that no definition says
render.py      a plan as text, styled lines and JSON (pure)
markdown.py    a plan as the comment of a pull request (pure)
saved_plan.py  a plan in a file, to be applied later
failures.py    what went wrong with a table, and what to do
"""
