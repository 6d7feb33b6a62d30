"""Data migrations: the items of a table brought into another shape, while the table is in use.

migration.py   a file with `up`, and the folder of them
transform.py   one item through `up`: what changes, and the conditional write that changes it (pure)
preview.py     a sample before and after, the check that `up` is idempotent, and what a run will cost
store.py       what is stored of a migration in `penstock-state`: how far it is, what failed, the history
run.py         one migration on a table: segments, conflicts, failures, checkpoints
migrator.py    several of them in their order: up, down, status, verify

`DELETE` is what `up` returns for an item that shall go.
"""

from penstock.tables.migrations.transform import DELETE

__all__ = ["DELETE"]
