"""`python -m trust.flood [--seconds 4 --only NAME]`: crowds, slow readers, half requests and worse against the server.

`penstock serve` runs as a process of its own. Each attack of `trust.flood_attacks` lasts some seconds, or until each
body of `trust.flood_bodies` was sent once. Meanwhile an ordinary client asks for health and for an item on a
connection that it keeps, and another on a new connection each time. What is measured: the longest that either waited,
how large the server became, and whether it lives. Then the same with no more than 64 file descriptors. Ends with 1 if
the server died, became larger than it may, or kept an ordinary client waiting for longer than it may.

    python -m trust.flood --seconds 10
    python -m trust.flood --only "slow readers" --only idle
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson

from trust.flood_attacks import (
    ATTACKS,
    BIG_ITEMS,
    GET,
    HEALTH,
    PUT,
    TABLE,
    Attack,
    answer,
    connected,
    key,
    request,
    silence,
)
from trust.flood_bodies import send_all

MOST_MEGABYTES: Final = 1_280
"""Larger than this the server may not become: see docs/trust.md for what the sum is made of."""
LONGEST_WAIT_SECONDS: Final = 10.0
_FEW_FILES: Final = 64
_CALM_SECONDS: Final = 1.0
_BODIES = Attack("bodies", "one that sends 48 hostile bodies of up to 16 MB, packed, each once", 1, send_all, once=True)
_FEW = Attack("few files", f"300 idle connections where {_FEW_FILES} files may be open", 300, silence)


@dataclass(slots=True)
class Measured:
    """What an ordinary client met during an attack."""

    waits: list[float] = field(default_factory=list)
    refusals: int = 0
    """Times that its connection was refused or ended: it asked again."""
    largest_kb: int = 0

    @property
    def longest(self) -> float:
        return max(self.waits, default=float("inf"))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m trust.flood", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each attack lasts")
    parser.add_argument("--only", action="append", metavar="NAME", help="this attack alone; may be given again")
    parser.add_argument("--longest", type=float, default=LONGEST_WAIT_SECONDS, help="seconds that others may wait")
    parser.add_argument("--seed", type=int, default=0, help="printed as every run's; nothing here is drawn")
    options = parser.parse_args()
    names = [attack.name for attack in (*ATTACKS, _BODIES, _FEW)]
    unknown = sorted(set(options.only or []) - set(names))
    if unknown:
        parser.error(f"there is no attack {unknown[0]!r}; they are {', '.join(names)}")
    print(f"seed {options.seed}", flush=True)
    _allow_files()
    found = flooded(options.seconds, options.only or names, options.longest)
    print("\n".join(found) if found else "The server stayed up, within its bounds, and served the others.", flush=True)
    return 1 if found else 0


def _allow_files() -> None:
    """As many connections as the attacks have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard) if hard > 0 else 4096, hard))


def flooded(seconds: float, names: list[str], longest: float = LONGEST_WAIT_SECONDS) -> list[str]:
    """Runs the attacks; what went wrong."""
    found: list[str] = []
    with tempfile.TemporaryDirectory(prefix="penstock-flood-") as folder:
        for files, attacks in ((None, (*ATTACKS, _BODIES)), (_FEW_FILES, (_FEW,))):
            chosen = [attack for attack in attacks if attack.name in names]
            if chosen:
                found += asyncio.run(_against_one_server(Path(folder), files, chosen, seconds, longest))
    return found


async def _against_one_server(
    folder: Path, files: int | None, attacks: list[Attack], seconds: float, longest: float
) -> list[str]:
    server = Server(folder / f"flood-{files}.db", files)
    found: list[str] = []
    try:
        await _fill(server.port)
        print(f"{'attack':<14} {'longest':>8} {'median':>8} {'asked':>6} {'refused':>7} {'size':>8}", flush=True)
        await _one(server, Attack("none", "", 0, silence), _CALM_SECONDS, longest)
        for attack in attacks:
            found += await _one(server, attack, seconds, longest)
            if server.has_ended:
                break
    finally:
        found += server.stop()
    return found


async def _one(server: Server, attack: Attack, seconds: float, longest: float) -> list[str]:
    measured = Measured()
    clients = [asyncio.create_task(_again_and_again(attack, server.port)) for _ in range(attack.clients)]
    await asyncio.sleep(0.3)
    watchers = [_witness(server.port, measured, keeps) for keeps in (True, False)]
    tasks = [asyncio.create_task(one) for one in (*watchers, _sizes(server, measured))]
    end = time.monotonic() + seconds
    # Until an ordinary client has been answered at least once, or has waited for too long.
    while (
        time.monotonic() < end
        or (not measured.waits and time.monotonic() < end + longest)
        or (attack.once and not all(client.done() for client in clients) and not server.has_ended)
    ):
        await asyncio.sleep(0.05)
    left: set[asyncio.Task[None]] = {*clients, *tasks}
    while left:  # a task that was about to end by itself may pass over being cancelled
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=1.0)
    middle = sorted(measured.waits)[len(measured.waits) // 2] if measured.waits else float("inf")
    print(
        f"{attack.name:<14} {1000 * measured.longest:>5.0f} ms {1000 * middle:>5.1f} ms {len(measured.waits):>6} "
        f"{measured.refusals:>7} {measured.largest_kb // 1024:>5} MB",
        flush=True,
    )
    return _wrong(server, attack, measured, longest)


def _wrong(server: Server, attack: Attack, measured: Measured, longest: float) -> list[str]:
    found: list[str] = []
    if server.has_ended:
        found.append(f"{attack.name}: the server has ended")
    if measured.longest > longest:
        found.append(f"{attack.name}: an ordinary client waited for {measured.longest:.1f} s")
    if measured.largest_kb > MOST_MEGABYTES * 1024:
        found.append(f"{attack.name}: the server had {measured.largest_kb // 1024} MB")
    return found


async def _again_and_again(attack: Attack, port: int) -> None:
    while True:
        with suppress(OSError, EOFError, asyncio.LimitOverrunError):
            await attack.client(port)
        if attack.once:
            return
        await asyncio.sleep(0.1)


async def _witness(port: int, measured: Measured, keeps: bool) -> None:
    """An ordinary client: asks, is answered; a connection that was ended is made again, as every SDK does."""
    streams = None
    while True:
        asked_at = time.monotonic()
        for one in (HEALTH, GET, PUT):
            while True:
                try:
                    if streams is None:
                        streams = await connected(port)
                    streams[1].write(one)
                    assert (await answer(streams[0])).endswith(b"200 OK")
                    break
                except (OSError, EOFError):
                    measured.refusals += 1
                    streams = None
                    await asyncio.sleep(0.02)
        measured.waits.append(time.monotonic() - asked_at)
        if not keeps and streams is not None:
            streams[1].close()
            streams = None
        await asyncio.sleep(0.05)


async def _sizes(server: Server, measured: Measured) -> None:
    while True:
        measured.largest_kb = max(measured.largest_kb, server.size_kb)
        await asyncio.sleep(0.05)


async def _fill(port: int) -> None:
    """A small item, and large ones under one key."""
    reader, writer = await connected(port)
    schema = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
    types = [{"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "sk", "AttributeType": "N"}]
    table = {"TableName": TABLE, "KeySchema": schema, "AttributeDefinitions": types, "BillingMode": "PAY_PER_REQUEST"}
    items = [{**key(number), "filler": {"S": "x" * 350_000}} for number in range(BIG_ITEMS)]
    items.append({"pk": {"S": "small"}, "sk": {"N": "1"}})
    writer.write(request("CreateTable", table))
    await answer(reader)
    for item in items:
        writer.write(request("PutItem", {"TableName": TABLE, "Item": item}))
        assert (await answer(reader)).endswith(b"200 OK")
    writer.close()


class Server:
    """`penstock serve` as a process, with no more than `files` open files if that is said."""

    def __init__(self, file: Path, files: int | None) -> None:
        def limit() -> None:
            if files is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        command = [sys.executable, "-m", "penstock", "serve", "--db", str(file), "--port", "0", "--json"]
        self._errors = file.with_suffix(".err")
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, preexec_fn=limit)
        assert self._process.stdout is not None
        self.port = int(orjson.loads(self._process.stdout.readline())["url"].rpartition(":")[2])

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def size_kb(self) -> int:
        """Its resident memory."""
        with suppress(OSError):
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE") // 1024
        return 0

    def stop(self) -> list[str]:
        """Ends it as a signal does; what it had to say, which should be nothing."""
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        said = self._errors.read_text(errors="replace").strip()
        found = [] if code == 0 else [f"the server ended with {code}"]
        return [*found, f"the server said: {said[-2000:]}"] if said else found


if __name__ == "__main__":
    sys.exit(main())
