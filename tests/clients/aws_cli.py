"""The AWS CLI as a process, as one types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

AWS = Path(sys.executable).with_name("aws")
_SECONDS = 30
# What the CLI ends with when the service refused the call.
_SERVICE_ERROR = 255


class Aws:
    """The AWS CLI, pointed at the server."""

    def __init__(self, url: str, environment: dict[str, str]) -> None:
        self._url = url
        self._environment = environment

    def __call__(self, *words: str, service: str = "dynamodb") -> Any:
        """What a command printed, read as JSON; None if it printed nothing."""
        done = self._run(service, words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    def refusal(self, *words: str) -> str:
        """What a command that the server refused said."""
        done = self._run("dynamodb", words)
        assert done.returncode == _SERVICE_ERROR, done.stderr
        return done.stderr.strip()

    def _run(self, service: str, words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        command = [AWS, service, *words, "--endpoint-url", self._url, "--output", "json"]
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=_SECONDS)
