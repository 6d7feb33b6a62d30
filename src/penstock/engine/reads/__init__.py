"""Query and Scan.

key_ranges.py  key conditions to a range of rows
pages.py       rows of a range to a page of items, filtered and projected
"""
