"""A process that writes jobs into a jobs.json beside others: `python security_writer.py FOLDER PREFIX COUNT`."""

from __future__ import annotations

import sys
from pathlib import Path

from security_world import made, storage_of


def main(folder: str, prefix: str, count: str) -> None:
    with storage_of("local", Path(folder)) as storage:
        for number in range(int(count)):
            made(storage, job_id=f"{prefix}_{number}")


if __name__ == "__main__":
    main(*sys.argv[1:])
