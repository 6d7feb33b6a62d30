"""The dashboard: jobs, pipelines, records, tables and workers as live web pages.

    security      who may ask: login token, form token, headers
    source        the database, its job store and the files
    job_counts    counts of jobs by state, and the rest of the overview, read at a bounded cost
    charts/       SVG drawn from what was read
    items/        the items of a table: search, edit, export
    site          what every page uses: source, templates, downloads
    poller        reads the database for all live pages, and sends them events
    pages/        a module a page, with its reads
    app           all of it as an ASGI application, and how it is served

1. Reading needs no script. The script makes pages live, keeps filters in the URL and asks before a change.
2. The database is polled once a second for all open pages together, and not at all if none is open (poller.py).
3. Data from the database is text: it is escaped, and no inline script runs (security.py).
4. A change is a POST with a token. It is previewed, and conditional on what the page showed (pages/jobs.py).
"""

from penstock.extras import require

require("starlette", "uvicorn", "jinja2", "multipart", extra="web", what="The dashboard")
