"""The items of tables.

transfers.py    pages, reads and writes in bulk
dump_folder.py  a table in a folder: DynamoDB's export format
dump.py         a table to a folder
load.py         a folder to a table
compare.py      two tables compared
backups.py      backups and restores that finish the job
"""
