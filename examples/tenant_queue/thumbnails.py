"""A queue that many customers share: nobody waits for somebody else's thousand jobs, and nobody takes all workers.

python thumbnails.py             one customer asks for 30 pictures, then two others for 3 each
penstock worker thumbnails:app --until-empty --concurrency 4
python thumbnails.py order       who was served when
"""

from __future__ import annotations

import sys

import penstock

app = penstock.App("thumbnails.db")


@app.task(
    tenant="{customer}",  # customers are served in turn
    concurrency_key="{customer}",
    max_concurrent=2,  # of one customer, two at once
    rate="200/s",  # what the service behind it stands
    retries=3,
)
def thumbnail(customer: str, picture: int) -> str:
    return f"{customer}/{picture}.webp"


def order() -> list[str]:
    """The customers, in the order in which their jobs began."""
    jobs = sorted(app.jobs.find(limit=100), key=lambda job: job.started_at or 0)
    return [str(job.tenant) for job in jobs]


if __name__ == "__main__":
    if sys.argv[1:] == ["order"]:
        served = order()
        for customer in ("small", "tiny"):
            place = max(number for number, one in enumerate(served, 1) if one == customer)
            print(f"{customer}: the last of its jobs was number {place} of {len(served)}")
    else:
        thumbnail.enqueue_many([{"customer": "huge", "picture": number} for number in range(30)])
        for customer in ("small", "tiny"):
            thumbnail.enqueue_many([{"customer": customer, "picture": number} for number in range(3)])
        print("36 jobs")
