"""Paddle's webhooks, from the request to the books.

signatures.py      who sent a webhook: Paddle Billing's and Classic's signatures
http.py            the receiver over HTTP
receiver.py        a webhook is verified, recorded and left to a job
webhook.py         a webhook, read and checked
webhook_record.py  its record, and how it changes
intake.py          attempts, retries, dead letters, replays
paddle.py          what Paddle's events mean for the books
subscriptions.py   which of a company's subscriptions counts
job_source.py      webhooks as jobs, for `penstock jobs`
"""
