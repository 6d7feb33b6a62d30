"""sdk_v3.mjs, run by Node."""

from __future__ import annotations

import subprocess
from pathlib import Path

STEPS = Path(__file__).with_name("sdk_v3.mjs")
_SECONDS = 60


def run_steps(node_packages: Path, url: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs every step against `url`; the exit code is 0 if all agreed."""
    command = ["node", STEPS, node_packages, url]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_SECONDS)
