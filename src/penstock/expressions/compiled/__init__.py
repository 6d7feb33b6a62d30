"""Trees as closures.

placeholders.py        names and values: well formed, all defined, all used
paths.py               document paths, and what they find
comparison.py          values against values
condition_closures.py  a condition → a function of an item
conditions.py          ConditionExpression, FilterExpression
key_conditions.py      KeyConditionExpression
projections.py         ProjectionExpression
update_closures.py     SET, REMOVE, ADD, DELETE → what they leave
updates.py             UpdateExpression
update_facts.py        what an update's text shows without an item
named.py               expressions with their names put in, cached
"""
