"""What Penstock remembers of tables: who changes one now, and what was done to it.

state_table.py   the table `penstock-state`: leases, a history, and records with conditional writes
"""
