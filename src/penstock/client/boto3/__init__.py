"""boto3 on the embedded engine.

codec.py    boto3's values ↔ DynamoDB's JSON
clients.py  clients and resources, without HTTP
"""
