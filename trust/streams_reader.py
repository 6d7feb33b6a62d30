"""A consumer process of trust.streams: it writes each change that it is given to the ledger, as one line.

python -m trust.streams_reader TARGET GROUP LEDGER LEASE_SECONDS
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

from penstock.client.database import connect


def main() -> None:
    target, group, ledger, lease_seconds = sys.argv[1:]
    out = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with connect(target) as db:
        changes = db.table("orders").changes(group, start="oldest", lease_seconds=float(lease_seconds))
        signal.signal(signal.SIGTERM, lambda *_: changes.stop())
        with changes, suppress(KeyboardInterrupt):
            for change in changes:
                item = change.item
                # One write: a line is there whole, or not at all.
                os.write(out, f"{os.getpid()} {item['id']} {item['n']} {change.sequence_number}\n".encode())


if __name__ == "__main__":
    main()
