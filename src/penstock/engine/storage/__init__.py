"""The SQLite file.

database_file.py   connections, transactions, the file's format
write_lock.py      SQLite's write lock, where several processes write
lock_holder.py     which process holds it
checkpoints.py     the log (WAL) is copied into the file by a thread
lost_file.py       a file that was deleted, replaced or overwritten is noticed
stray_logs.py      logs that lie beside a file which they do not belong to
file_names.py      a file as a URI; the names beside it
private_files.py   new files are readable by their owner alone
read_only.py       a file opened only to look at it
file_copy.py       a copy of a file in use (`penstock backup`)
"""
