"""`GET /docs`: the OpenAPI document as one page. It has no script, and loads nothing from anywhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from starlette.responses import HTMLResponse, Response

from penstock.web.api.validation import number_text


def reference_page(document: Mapping[str, Any]) -> Response:
    """The page of an OpenAPI document."""
    style = files(__package__).joinpath("reference.css").read_text()
    page = _template().render(document=document, operations=list(_operations(document)), style=style)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'; sandbox"
    return HTMLResponse(page, headers={"Content-Security-Policy": policy, "Cache-Control": "no-store"})


@cache
def _template() -> Template:
    # StrictUndefined: a wrong name in the template is an error, not an empty text.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["type_text"] = _type_text
    return environment.from_string(files(__package__).joinpath("reference.html").read_text())


def _operations(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield {"method": method.upper(), "path": path, **operation}


def _type_text(schema: Mapping[str, Any]) -> str:
    """A JSON Schema in a few words: `integer, at most 500`, `list of Line`, `text or null`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_type_text(one) for one in schema["anyOf"])
    if "enum" in schema:
        return "one of " + ", ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_type_text(schema.get('items', {}))}"
    if schema.get("format") == "binary" or "contentMediaType" in schema:
        return "a file"
    text = str(schema.get("type", "anything"))
    limits = [f"{words} {number_text(schema[name])}" for name, words in _LIMITS.items() if name in schema]
    return ", ".join([text, *limits])


_LIMITS = {"minimum": "at least", "maximum": "at most", "minLength": "at least", "maxLength": "at most"}
