"""`penstock items` and `penstock sql`: items at hand.

commands.py    items: get, put, query, scan, count, update, delete; how items are shown
sql.py         sql: PartiQL from -c, a file, stdin or a shell
sql_prompt.py  the shell's line: completion and history
"""
