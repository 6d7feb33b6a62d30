"""A large file saved and read back, its hash checked: `python -m bench files`.

One process saves from an iterator and reads back in blocks; it tells its peak memory, whole process and beyond what it
had before: in a folder and, if moto is installed, in a bucket of a moto server in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.options import Options
from bench.report import Section, Table
from bench.sections import alone

ROOT = Path(__file__).parent.parent
BLOCK = os.urandom(1024 * 1024)
SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
MAKE_BUCKET = """
from penstock.client.transports.credentials import new_session
new_session(None).create_client("s3").create_bucket(Bucket="bench")
"""


@dataclass(frozen=True)
class Plan:
    megabytes: int


PLANS = {"full": Plan(1000), "quick": Plan(20)}


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    columns = ["", "saved, MB/s", "read, MB/s", "seconds of CPU", "highest memory", "beyond the start"]
    table = Table(f"A file of {plan.megabytes:,} MB", columns)
    section = Section("files", "Files", [table])
    with tempfile.TemporaryDirectory() as folder:
        _add(section, table, "folder", _told(folder, plan.megabytes, {}), plan)
    try:
        with bucket() as environment:
            _add(section, table, "S3 (moto server)", _told("s3://bench", plan.megabytes, environment), plan)
    except RuntimeError as error:
        section.notes.append(f"S3: {error}")
    return section


def _add(section: Section, table: Table, kind: str, told: dict[str, float], plan: Plan) -> None:
    cells = [f"{told['save']:.0f}", f"{told['read']:.0f}", f"{told['cpu']:.1f}"]
    table.rows.append([kind, *cells, *(f"{told[one] / 1e6:.1f} MB" for one in ("peak", "beyond"))])
    section.figures[f"peak/{kind}/{plan.megabytes}"] = told["peak"]


def _told(home: str, megabytes: int, environment: dict[str, str]) -> dict[str, float]:
    words = [sys.executable, "-m", "bench.files", "--one", home, str(megabytes)]
    done = subprocess.run(
        words, cwd=ROOT, env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=True, timeout=900
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


@contextmanager
def bucket() -> Iterator[dict[str, str]]:
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None and server.stdout is not None
    try:
        port = next((line.strip() for line in server.stdout if line.strip().isdigit()), None)
        if port is None:
            raise RuntimeError("not measured: pip install 'moto[s3]' flask flask-cors")
        keys = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_DEFAULT_REGION": "us-east-1"}
        environment = {"AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}", **keys}
        subprocess.run([sys.executable, "-c", MAKE_BUCKET], env=os.environ | environment, check=True)
        yield environment
    finally:
        server.stdin.close()
        server.wait(timeout=60)


def measure(home: str, megabytes: int) -> None:
    from penstock.files import open_files

    files = open_files(home)
    files.save("small", b"1")  # so that what is imported at the first use is not counted beyond the start
    files.read("small")
    before, cpu, began = peak_bytes(), time.process_time(), time.perf_counter()
    saved = files.save("large", (BLOCK for _ in range(megabytes)))
    at = time.perf_counter()
    with files.open("large", expect=saved) as stream:
        while stream.read(len(BLOCK)):
            pass
    ended, cpu, peak = time.perf_counter(), time.process_time() - cpu, peak_bytes()
    files.delete("large")
    mega = saved.size / 1e6
    told = {"save": mega / (at - began), "read": mega / (ended - at), "cpu": cpu, "peak": peak, "beyond": peak - before}
    sys.stdout.write(json.dumps(told))


def peak_bytes() -> int:
    """The most memory this process ever had resident. (getrusage tells its parent's too, after an exec.)"""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    if "--one" in sys.argv:
        measure(sys.argv[2], int(sys.argv[3]))
    else:
        alone("files")
