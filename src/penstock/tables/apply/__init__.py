"""A plan carried out.

apply.py            tables side by side, each table's changes in their order
table_changer.py    one table's changes
change_requests.py  a change → DynamoDB's calls
table_poller.py     asking about a table until it is as it should be
table_states.py     what a description says of a table that changes
side_by_side.py     several such conversations in one thread
single_table.py     one table made, changed and waited for
failures.py         what went wrong, and what to do
"""
