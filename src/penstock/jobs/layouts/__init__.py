"""How a job becomes items.

layout.py           what the store asks of a layout
item_collection.py  the default layout: a job is one item collection
tables.py           its table
"""
