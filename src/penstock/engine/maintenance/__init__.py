"""Work in the background.

maintenance.py     the thread, and the chores that are due
steps.py           short transactions for work on many rows
dropped_tables.py  the rows of large dropped tables, deleted in steps
"""
