"""Trees as closures.

paths.py       document paths, what they find; ProjectionExpression
conditions.py  ConditionExpression, FilterExpression, KeyConditionExpression
updates.py     UpdateExpression
"""
