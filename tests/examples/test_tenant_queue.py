"""examples/tenant_queue: a small customer is served before a large one's backlog is."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from example_programs import EXAMPLES

from penstock.jobs.worker.worker import Worker


def test_nobody_waits_for_another_customers_backlog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("thumbnails", EXAMPLES / "tenant_queue" / "thumbnails.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "thumbnails", module)
    spec.loader.exec_module(module)
    module.thumbnail.enqueue_many([{"customer": "huge", "picture": number} for number in range(30)])
    module.thumbnail.enqueue_many([{"customer": "small", "picture": number} for number in range(3)])
    Worker(module.app, burst=True, concurrency=1).run()
    served = module.order()
    assert len(served) == 33
    assert max(number for number, one in enumerate(served) if one == "small") < 15
    module.app.close()
