"""The dashboard: jobs, workers and tables to look at, in one process with a poller that all open pages share.

1. Reading needs no script. The script only makes pages live, keeps filters in the URL and asks before changes.
2. However many pages are open, the database is polled once a second for all, and not at all for none (live.py).
3. Whatever comes from the database is text: it is escaped where it is shown, and no inline script runs (security.py).
4. What changes something is a POST with a token, is previewed, and is conditional on what was seen (pages/bulk.py).
"""

from penstock.extras import require

require("starlette", "uvicorn", "jinja2", "multipart", extra="web", what="The dashboard")
