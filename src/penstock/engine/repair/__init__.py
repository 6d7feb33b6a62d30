"""`penstock repair`: what is damaged in a file, and a new file of what is not.

file_snapshot.py   a file at one moment, with every row that can be read
sqlite_pages.py    SQLite's trees, read page by page
sqlite_rows.py     the rows in a page
damaged_tables.py  rows as tables and items
findings.py        what is found, as values
examine.py         the examination
rescue.py          the new file
"""
