"""Who may call.

origins.py        which web pages may call
authorization.py  the form of the Authorization header or query
signature.py      AWS Signature Version 4, checked when keys are configured
credentials.py    the file of `--credentials`
"""
