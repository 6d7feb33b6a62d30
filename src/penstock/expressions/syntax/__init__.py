"""Text to tree, and back.

tokens.py         text → tokens
checks.py         the 573 words that are no attribute names
parser.py         tokens → tree, a function for each rule
tree.py           the tree: one frozen class a case
checks.py         size, reserved words, functions and operators
render.py         tree → text
error_wording.py  what DynamoDB says of an expression that it refuses
"""
