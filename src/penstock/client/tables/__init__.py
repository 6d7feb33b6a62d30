"""A table's handle.

requests.py      calls as values: an operation, its request, how to read the answer
transactions.py  up to 100 actions, all or none
table.py         what a table can be asked; Table, for threads
"""
