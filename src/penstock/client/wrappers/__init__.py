"""Transports around transports.

wrapper.py     what wrappers share, for threads and for asyncio; what a call says about itself
retries.py     a call that failed for a passing reason is made again, if it may be sent twice
pacing.py      how fast many calls may go on
metering.py    what calls cost
tracing.py     a span for each call
recording.py   calls and answers as lines of JSON, and replayed
faults.py      failures, injected by seed
"""
