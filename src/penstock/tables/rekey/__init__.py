"""Another primary key for a table, with its data.

plan.py          the new table, checked as far as can be told
item_mapping.py  an old item → the new one
state.py         what is known of a rekey between its runs
rekey.py         the phases: create, copy, follow, switch
stream.py        the old table's changes
catch_up.py      the new table brought to what the old one says
checksums.py     both compared by sums
"""
