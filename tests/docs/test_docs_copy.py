"""The site's button copies the commands of a console, without prompts and without what they print."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from doc_blocks import ROOT

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SCRIPT = ROOT / "docs" / "generate" / "theme" / "copy.js"
CONSOLE = "$ export A=1\n$ penstock jobs list \\\n    --limit 1\nNo jobs.\n$ exit\n"


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine: apt install chromium")
def test_a_console_s_commands_are_copied_and_a_program_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        f"<pre><code>{CONSOLE}</code></pre><pre><code>price = '$ 1'</code></pre><script src='{SCRIPT}'></script>"
    )
    words = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    ran = subprocess.run([*words, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    copied = [html.unescape(text) for text in re.findall(r'data-copy="([^"]*)"', ran.stdout)]
    assert copied == ["export A=1\npenstock jobs list \\\n    --limit 1\nexit"]
