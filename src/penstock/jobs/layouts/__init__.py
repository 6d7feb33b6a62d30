"""How a job becomes items.

layout.py           what the store asks of a layout
attributes.py       parts of jobs as attributes
main_record.py      the job as an item
item_collection.py  the default layout: a job is one item collection
tables.py           its table
"""
