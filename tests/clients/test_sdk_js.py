"""The AWS SDK for JavaScript v3: the steps of sdk_v3.mjs."""

from __future__ import annotations

from pathlib import Path

from javascript import STEPS, run_steps


def test_the_javascript_sdk_agrees_in_every_step(server: str, node_packages: Path, client_environment: dict[str, str]):
    done = run_steps(node_packages, server, client_environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok ") == STEPS.read_text().count("  async '")
