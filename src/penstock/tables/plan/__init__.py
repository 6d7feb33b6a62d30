"""From live tables and definitions to a plan.

inspect.py     tables as they are
survey.py      a fleet of them beside what it should be
diff.py        the changes that turn one table into another (pure)
changes.py     one class a change
costs.py       what a change costs
plan.py        the plan of a fleet
render.py      a plan for people and for programs
iam_policy.py  the least IAM policy for some commands
"""
