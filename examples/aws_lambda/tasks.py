"""The jobs. On Lambda no attempt lives longer than fifteen minutes: a longer job keeps checkpoints."""

from __future__ import annotations

import time

import penstock

app = penstock.App()  # PENSTOCK_DB=aws://eu-west-2, PENSTOCK_FILES=s3://acme-jobs/reports


@app.task(retries=3, lease_seconds=30, time_limit_seconds=600)
def thumbnails(ctx: penstock.JobContext, album: str, pictures: int, seconds_a_picture: float = 0.0) -> int:
    """Scales the pictures of an album. The next invocation continues at the picture that this one has not done."""
    for number in range(ctx.resume("scaled", 0) + 1, pictures + 1):
        time.sleep(seconds_a_picture)  # your work
        ctx.checkpoint("scaled", number, progress=100 * number / pictures)
    return pictures
