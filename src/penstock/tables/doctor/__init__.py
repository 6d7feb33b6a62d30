"""Known mistakes.

rules.py       of definitions
item_rules.py  that only stored items show
examine.py     all of them, over a fleet
"""
