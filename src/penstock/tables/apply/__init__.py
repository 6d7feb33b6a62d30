"""A plan carried out.

apply.py          tables side by side; one table made, changed and waited for
table_changer.py  one table's changes: their requests, and waiting until it is as it should be
"""
