"""boto3 on the embedded engine.

session_data.py  botocore's data files
codec.py         boto3's values ↔ DynamoDB's JSON
clients.py       clients and resources, without HTTP
"""
