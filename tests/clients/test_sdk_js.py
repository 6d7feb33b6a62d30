"""The AWS SDK for JavaScript v3: the steps of sdk_v3.mjs."""

from __future__ import annotations

import subprocess
from pathlib import Path

SCRIPT = Path(__file__).with_name("sdk_v3.mjs")
_SECONDS = 60


def test_the_javascript_sdk_agrees_in_every_step(server: str, node_packages: Path, client_environment: dict[str, str]):
    command = ["node", SCRIPT, node_packages, server]
    done = subprocess.run(command, env=client_environment, capture_output=True, text=True, timeout=_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok ") == SCRIPT.read_text().count("  async '")
