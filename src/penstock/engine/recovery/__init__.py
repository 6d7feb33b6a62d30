"""Backups, point-in-time recovery and restores.

backups.py           a table at one moment, in the same file
journal.py           what each change has replaced, for point-in-time recovery
restores.py          the definition of a restored table; a small one made at once
restore_steps.py     a large one, copied in steps
restored_indexes.py  its indexes, filled in the order of their own keys
"""
