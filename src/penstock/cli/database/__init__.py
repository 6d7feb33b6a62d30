"""A database on this machine: started, and looked after as a file.

serve.py           serve: a DynamoDB on a port
dynamodb_local.py  dynamodb-local: the same, with DynamoDB Local's options
quickstart.py      quickstart: a server in memory, a table and real calls
database_file.py   backup, repair, heat
"""
