"""Text to tree, and back.

parser.py         text → tokens → tree, a function for each rule
tree.py           the tree: one frozen class a case; tree → text
checks.py         size, the 573 reserved words, functions and operators
error_wording.py  what DynamoDB says of an expression that it refuses
"""
