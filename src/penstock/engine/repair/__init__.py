"""`penstock repair`: what is damaged in a file, and a new file of what is not.

file_snapshot.py   a file at one moment, with every row that can be read
sqlite_pages.py    SQLite's trees, read page by page, and the rows in a page
damaged_tables.py  rows as tables and items
examine.py         what is damaged
rescue.py          the new file
"""
