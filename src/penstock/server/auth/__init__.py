"""Who may call.

authorization.py  the form of the Authorization header or query; which web pages may call
signature.py      AWS Signature Version 4, checked when keys are configured
credentials.py    the file of `--credentials`
"""
