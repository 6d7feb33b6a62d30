"""A company's expenses, from a file to their totals.

expense_file.py  expenses from anybody's CSV file
expenses.py      imported once, and added up
commands.py      `penstock construction expenses`
"""
