"""Installs a built wheel into a new environment, and uses it: `python3.13 -m tools.smoke dist/penstock-….whl`.

The environment is of the Python that runs this. In it: `penstock --version`, `quickstart`, a server that boto3 calls,
a job with a worker, a test with the pytest fixture. What fails ends the program. It needs a package index.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
import venv
from pathlib import Path

JOBS = """
import penstock

app = penstock.App("jobs.db")

@app.task()
def double(number: int) -> int:
    return 2 * number

if __name__ == "__main__":
    print(double.enqueue(number=21).id)
"""
TEST = """
def test_a_table(dynamodb):
    dynamodb.create_table(
        TableName="orders", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
    )
    dynamodb.put_item(TableName="orders", Item={"id": {"S": "1"}})
    assert dynamodb.get_item(TableName="orders", Key={"id": {"S": "1"}})["Item"] == {"id": {"S": "1"}}
"""
SERVED = """
import os, subprocess, sys, json, boto3
server = subprocess.Popen([sys.argv[1], "serve", "--memory", "--port", "0", "--json"], stdout=subprocess.PIPE)
try:
    url = json.loads(server.stdout.readline())["url"]
    client = boto3.client("dynamodb", endpoint_url=url, region_name="us-east-1", aws_access_key_id="a",
                          aws_secret_access_key="b")
    assert client.list_tables()["TableNames"] == []
finally:
    server.terminate()
    server.wait()
"""


def main(wheel: str, *extras: str) -> None:
    wheel = str(Path(wheel).resolve())
    with tempfile.TemporaryDirectory(prefix="smoke-") as directory:
        folder = Path(directory)
        venv.create(folder / "venv", with_pip=True)
        bin_folder = folder / "venv" / "bin"
        wanted = f"{wheel}[{','.join(extras)}]" if extras else wheel
        run(folder, bin_folder / "pip", "install", "--quiet", "--disable-pip-version-check", wanted, "pytest")
        run(folder, bin_folder / "pip", "check")
        use(folder, bin_folder)
    sys.stdout.write(f"Python {sys.version.split()[0]}: {Path(wheel).name}{list(extras) or ''} works.\n")


def use(folder: Path, bin_folder: Path) -> None:
    penstock, python = bin_folder / "penstock", bin_folder / "python"
    run(folder, penstock, "--version")
    run(folder, penstock, "quickstart")
    (folder / "served.py").write_text(textwrap.dedent(SERVED))
    run(folder, python, "served.py", penstock)
    (folder / "work.py").write_text(textwrap.dedent(JOBS))
    job = run(folder, python, "work.py").strip()
    run(folder, penstock, "worker", "work:app", "--until-empty")
    if "42" not in run(folder, penstock, "jobs", "show", job, "--db", "jobs.db"):
        raise SystemExit("the job has no result")
    (folder / "test_it.py").write_text(textwrap.dedent(TEST))
    run(folder, python, "-m", "pytest", "-q", "test_it.py")


def run(folder: Path, *words: object) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(  # noqa: S603 - our own words
        [str(word) for word in words], cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main(*sys.argv[1:])
