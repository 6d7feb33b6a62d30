"""The SQLite file.

database_file.py  connections, transactions, forks
file_watch.py     a file that was deleted, replaced or overwritten is noticed
file_format.py    its SQL tables, and the versions of its format
write_lock.py     SQLite's write lock, where several processes write; who holds it
checkpoints.py    the log (WAL) is copied into the file by a thread
change_watch.py   waits for a commit of any process
sidecar_files.py  the files beside it, their permissions, stray logs
file_copy.py      a copy of a file in use (`penstock backup`); a file opened only to look at it
"""
