"""Reading many items.

pages.py        page after page, resumable, at a pace
scans.py        a scan by several threads
"""
