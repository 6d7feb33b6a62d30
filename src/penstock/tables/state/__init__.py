"""What Penstock remembers of tables: who changes one now, and what was done to it.

state_table.py   the table `penstock-state`: leases, a history, and records with conditional writes
locked_apply.py  a plan applied under leases on its tables, and written to their history
second_look.py   what did not take, and what an endpoint took and does not tell
"""
