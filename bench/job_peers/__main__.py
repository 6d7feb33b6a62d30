"""A producer: reads `enqueue 5000`, `all 5000`, `steps`, `left` or `prepare` a line; answers with JSON."""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any


def main() -> None:
    peer = importlib.import_module(f"bench.job_peers.{sys.argv[1]}")
    for line in sys.stdin:
        words = line.split()
        wall, cpu = time.perf_counter(), time.process_time()
        value = _done(peer, words)
        figures = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "value": value}
        sys.stdout.write(json.dumps(figures) + "\n")
        sys.stdout.flush()


def _done(peer: Any, words: list[str]) -> Any:
    match words:
        case ["prepare"]:
            return peer.prepare()
        case ["enqueue", count]:
            return peer.enqueue(int(count))
        case ["all", count]:
            return hasattr(peer, "enqueue_all") and (peer.enqueue_all(int(count)) or True)
        case ["steps"]:
            return peer.enqueue_steps()
        case ["left"]:
            return peer.left()
    raise ValueError(f"not a command: {words}")


if __name__ == "__main__":
    main()
