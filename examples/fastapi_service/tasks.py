"""The service's jobs: they run in a worker, never in a request.

penstock worker tasks:jobs
"""

from __future__ import annotations

import csv
import io
import time

import penstock

jobs = penstock.App()  # PENSTOCK_DB says where: a file, http://…, or aws://region


@jobs.task(retries=3, lease_seconds=30)
def report(ctx: penstock.JobContext, project: str, pages: int, seconds_a_page: float = 0.1) -> dict[str, int]:
    """Renders the pages of a report, and saves them as a CSV file. A crash costs one page at most."""
    done = ctx.resume("rendered", 0)
    for number in range(done + 1, pages + 1):
        time.sleep(seconds_a_page)  # your work
        ctx.checkpoint("rendered", number)
        ctx.progress(100 * number / pages, step="rendering", message=f"page {number} of {pages}")
    text = io.StringIO()
    csv.writer(text).writerows([["project", "page"], *([project, number] for number in range(1, pages + 1))])
    ctx.files.save("report.csv", text.getvalue().encode())
    return {"pages": pages}
