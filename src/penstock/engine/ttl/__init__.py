"""Time to live.

expiry_rows.py  which items end when
sweeper.py      deletes those that have ended
"""
