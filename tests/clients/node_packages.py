"""The Node packages of package.json, installed once into the user's cache and shared by all later runs."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PACKAGES = Path(__file__).with_name("package.json")
_INSTALL_SECONDS = 60
_QUIETLY = ("--no-audit", "--no-fund", "--no-package-lock", "--prefer-offline")
# Without these npm goes on for minutes where there is no network.
_GIVING_UP_EARLY = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=20000")
_ADVICE = "make the npm registry reachable for one run, after which the packages of package.json are cached"


class NotInstalled(Exception):
    """Why the packages are not there, and what to do about it."""


def installed() -> Path:
    """The folder that holds node_modules; NotInstalled if Node, npm or the registry is missing."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise NotInstalled("Node and npm are not installed: install Node 20 or later to run these tests")
    folder = _cache() / hashlib.sha256(PACKAGES.read_bytes()).hexdigest()[:16]
    if not folder.exists():
        _install(folder)
    return folder


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "penstock" / "node-clients"


def _install(folder: Path) -> None:
    """Installs beside `folder` and renames: two runs at once both end with one whole folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as half:
        shutil.copy(PACKAGES, half)
        _run_npm(Path(half))
        try:
            Path(half).rename(folder)
        except OSError:
            if not folder.exists():  # otherwise another run was first, and its folder is as good
                raise


def _run_npm(folder: Path) -> None:
    command = ["npm", "install", *_QUIETLY, *_GIVING_UP_EARLY]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm install took longer than {_INSTALL_SECONDS} s: {_ADVICE}") from None
    if done.returncode != 0:
        raise NotInstalled(f"npm install failed: {_ADVICE}. It said: {done.stderr.strip()[:200]}")
