"""The items of tables.

transfers.py  pages, reads and writes in bulk
item_requests.py  keys, conditions and updates as people write them
item_text.py      items as JSON lines and CSV
export_layout.py  DynamoDB's exports in a bucket, or in the copy of one
dump.py       a table to a folder, in DynamoDB's export format, and back
compare.py    two tables compared
backups.py    backups and restores that finish the job
"""
