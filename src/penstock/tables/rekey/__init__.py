"""Another primary key for a table, with its data.

item_mapping.py  an old item → the new one
new_table.py     the new table's key and indexes, and what becomes of the old ones
item_look.py     what a sample of the items shows, before a rekey begins
state.py         what is known of a rekey between its runs
phases.py        the plan, and the phases: create, copy, follow, switch
stream.py        the old table's changes
catch_up.py      the new table brought to what the old one says
checksums.py     both compared by sums
"""
