"""A reader who knows another system's word finds ours: each word leads to a heading, or to the glossary."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from doc_blocks import ROOT, pages, prose_of

GLOSSARY = ROOT / "docs" / "glossary.md"
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_ROW = re.compile(r"^\| ?(.+?) ?\|(.+)\|$", re.MULTILINE)


def headings(page: Path) -> list[str]:
    return _HEADING.findall(prose_of(page.read_text()))


def entries() -> dict[str, str]:
    """The glossary's words, each with what is said of it."""
    return {word.replace("*", "").replace("`", "").lower(): text for word, text in _ROW.findall(GLOSSARY.read_text())}


@pytest.mark.parametrize(
    "word",
    [
        "retry", "retries", "backoff", "heartbeat", "visibility timeout", "acks_late", "lease", "fencing token",
        "dead letter", "dead-letter queue", "rate limit", "rate_limit", "idempotency key", "unique key",
        "concurrency key", "countdown", "eta", "checkpoint", "activity", "workflow", "signal", "heartbeat timeout",
        "state file", "refresh", "import", "drift", "plan", "apply", "rekey", "group commit", "requeue",
        "throttle", "throttling", "poll", "attempt", "record", "pipeline", "step", "event", "job", "failed",
        "worker registry", "beat", "chain", "deduplication id",
    ],
)  # fmt: skip
def test_a_word_of_the_field_leads_to_a_heading_or_to_the_glossary(word: str) -> None:
    pattern = re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE)
    assert any(map(pattern.search, entries())) or any(pattern.search(one) for page in pages() for one in headings(page))


def test_every_word_of_the_glossary_has_a_meaning() -> None:
    assert [word for word, text in entries().items() if not text.strip(" |-") and set(word) - {"-"}] == []


def test_the_index_of_the_documentation_names_the_glossary() -> None:
    assert "(glossary.md)" in (ROOT / "docs" / "README.md").read_text()
