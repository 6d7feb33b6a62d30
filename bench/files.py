"""A large file saved and read back, its hash checked: `python -m bench.files [--megabytes 1000] [--home DIR|s3://…]`.

One process saves from an iterator and reads back in blocks; it tells its peak memory, whole process and beyond what it
had before. Without --home, a folder and, if moto is installed, a bucket of a moto server in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
from penstock.client.credentials import new_session
new_session(None).create_client("s3").create_bucket(Bucket="bench")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--home", help="a folder or s3://bucket; else both kinds")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure(options.home, options.megabytes)
        return
    print(
        f"{'home':<24} {'save MB/s':>10} {'read MB/s':>10} {'CPU s':>7} {'peak MB':>8} {'beyond start':>13}", flush=True
    )
    if options.home:
        run(options.home, options.megabytes, {})
        return
    with tempfile.TemporaryDirectory() as folder:
        run(folder, options.megabytes, {})
    try:
        with bucket() as environment:
            run("s3://bench", options.megabytes, environment)
    except RuntimeError as error:
        print(f"S3: {error}")
    print(f"Load average: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")


def run(home: str, megabytes: int, environment: dict[str, str]) -> None:
    words = [sys.executable, "-m", "bench.files", "--one", "--home", home, "--megabytes", str(megabytes)]
    subprocess.run(words, cwd=ROOT, env=os.environ | environment, check=True)


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
    kind = "S3 (moto server)" if home == "s3://bench" else "S3" if home.startswith("s3:") else "folder"
    mega = saved.size / 1e6
    rates = f"{mega / (at - began):>10.0f} {mega / (ended - at):>10.0f}"
    print(f"{kind:<24} {rates} {cpu:>7.1f} {peak / 1e6:>8.1f} {(peak - before) / 1e6:>13.1f}", flush=True)


def peak_bytes() -> int:
    """The most memory this process ever had resident. (getrusage tells its parent's too, after an exec.)"""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
