"""PartiQL's statements: text to tree, and the tree's parts as expressions.

tokens.py       text → tokens; keywords; what DynamoDB says of a statement that it refuses
tree.py         the tree: one frozen class a case
parser.py       tokens → statements and expressions
translation.py  values, conditions, keys and updates of a statement
"""
