"""Backups and restores; point-in-time recovery goes by `items/pitr_journal.py`.

backups.py   a table at one moment, in the same file
restores.py  a new table of a backup, or of a table as it was
"""
