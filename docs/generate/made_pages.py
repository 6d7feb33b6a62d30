"""Every page that is made from the program, and llms.txt."""

from __future__ import annotations

from pathlib import Path

from api_pages import api_pages
from cli_pages import cli_pages
from contents import llms_text

ROOT = Path(__file__).parents[2]


def made() -> dict[str, str]:
    """Every page that is made, by its path from the root."""
    pages = {f"docs/api/{name}": text for name, text in api_pages().items()}
    pages |= {f"docs/cli/{name}": text for name, text in cli_pages().items()}
    return {**pages, "llms.txt": llms_text(ROOT, set(pages))}


def stale() -> list[str]:
    """Those that are not as they would be made now, and those that would not be made."""
    pages = made()
    old = [path for path, text in pages.items() if not is_so(ROOT / path, text)]
    return old + [path for path in there() if path not in pages]


def is_so(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def there() -> list[str]:
    """The pages of the reference that lie on the disk."""
    folders = (ROOT / "docs/api", ROOT / "docs/cli")
    return [str(page.relative_to(ROOT)) for folder in folders for page in sorted(folder.glob("*.md"))]
