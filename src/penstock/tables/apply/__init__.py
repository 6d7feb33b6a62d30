"""A plan carried out.

apply.py          tables side by side; one table made, changed and waited for
requests.py       the calls that make a change
conversations.py  conversations with the database, run side by side in one thread
table_changer.py  one table's: its changes made, and waiting until it is as it should be
"""
