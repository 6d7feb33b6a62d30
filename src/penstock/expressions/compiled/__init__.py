"""Trees as closures.

placeholders.py    names and values: well formed, all defined, all used
paths.py           document paths, what they find; ProjectionExpression
conditions.py      ConditionExpression, FilterExpression
key_conditions.py  KeyConditionExpression
updates.py         UpdateExpression
named.py           expressions with their names put in, cached
"""
