"""One index at a time.

item_sample.py  a look at real items, and whether an index fits them
add_index.py    added, or changed with no gap in queries
"""
