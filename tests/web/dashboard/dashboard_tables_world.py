"""What the tests of the pages about tables share: a database with items, and the dashboard before it."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import urlencode

import httpx
import orjson
from dashboard_world import CSRF, Switch
from starlette.testclient import TestClient

from penstock.client.database import Database, connect
from penstock.engine.settings import Settings
from penstock.tables.apply.apply import apply
from penstock.tables.definitions.definition import Index, Naming, Table
from penstock.tables.definitions.sources import Definitions
from penstock.tables.plan.survey import survey
from penstock.web.dashboard.app import make_dashboard
from penstock.web.dashboard.source import Source

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&{{7*7}}"
ORDERS = Table(
    "orders",
    key=("customer:S", "number:N"),
    indexes=[Index("by-city", "city:S", "number:N", projection="KEYS_ONLY")],
    ttl="expires",
    stream="NEW_IMAGE",
)


class TableWorld:
    """Two tables in memory: `orders`, with an index, and `things`, whose key is a text."""

    def __init__(self, *, settings: Settings | None = None, definitions: Definitions | None = None, **options: Any):
        self.switch = Switch(connect(":memory:", settings=settings).transport)
        self.db = Database(self.switch)
        tables = (ORDERS, Table("things", key="id:S"))
        apply(self.db, survey(self.db, tables, Naming(prefix="")))
        self.source = Source(self.db, definitions=definitions)
        self.client = TestClient(
            make_dashboard(self.source, pause_seconds=0.02, **options), base_url="http://localhost"
        )

    # ── items ────────────────────────────────────────────────────────────────────────────────────

    def put(self, table: str, **item: Any) -> None:
        self.db.table(table).put(item)

    def item(self, table: str, **key: Any) -> dict[str, Any] | None:
        return self.db.table(table).get(key, consistent=True)

    # ── pages ────────────────────────────────────────────────────────────────────────────────────

    def get(self, path: str, **fields: str) -> httpx.Response:
        return self.client.get(f"{path}?{urlencode(fields)}" if fields else path)

    def page(self, path: str, **fields: str) -> str:
        response = self.get(path, **fields)
        assert response.status_code == 200, response.text
        return response.text

    def item_page(self, table: str, key: dict[str, Any]) -> str:
        return self.page(f"/tables/{table}/item", key=orjson.dumps(key).decode())

    def post(self, path: str, fields: dict[str, str]) -> httpx.Response:
        as_sent = {name: value.replace("\n", "\r\n") for name, value in fields.items()}  # as browsers do
        return self.client.post(path, data=as_sent, follow_redirects=False)

    def close(self) -> None:
        self.client.close()
        self.db.close()


def fields_of(page: str) -> dict[str, str]:
    """The fields of the form that saves an item, as a browser would send them."""
    found = {
        name: html.unescape(value) for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page)
    }
    text = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", page, re.DOTALL)
    return found if text is None else {**found, "item": html.unescape(text.group(1)).replace("\r\n", "\n")}


def csrf_of(page: str) -> str:
    found = CSRF.search(page)
    assert found is not None
    return found.group(1)


def rows_of(page: str) -> list[list[str]]:
    """The texts of a list's cells."""
    body = page.partition('<table class="list items">')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    rows = re.findall(r"<tr[^>]*>(?:<td class=\"tick\">.*?</td>)?(.*?)</tr>", body, re.DOTALL)
    return [
        [html.unescape(re.sub(r"<[^>]+>", "", cell)) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)]
        for row in rows
    ]
