"""What `trust.fuzz` feeds: every reader of bytes or texts from outside, with what each may say to nonsense.

A target returns if the input was read, raises `Refused` if it was refused in the reader's own words, and raises
anything else if the reader failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson

from penstock.client.reads.pages import InvalidToken, read_token
from penstock.client.transports.endpoints import parse as parse_url
from penstock.client.transports.messages import FastReader, Malformed, PlainReader
from penstock.engine import Engine
from penstock.engine.registry import OPERATIONS
from penstock.errors import DynamoDBError, InternalServerError, PenstockError
from penstock.files.content import checked_type
from penstock.jobs.scheduler.cron import Schedule
from penstock.server.auth.signature import Verifier
from penstock.server.http1 import H11Parser, ParserError
from penstock.server.replies import BodyTooLarge, chosen_encoding
from penstock.server.routing import Refused as RefusedReply
from penstock.server.routing import Router
from penstock.systems.delphi.analysis.conversation import parse_conversation
from penstock.systems.security_assistant.context_document.document import document_text
from penstock.systems.security_assistant.context_document.requirements import context_of
from penstock.systems.security_assistant.drawing.pdf import read_drawing
from penstock.tables.definitions.export_file import read_export
from penstock.tables.formats import terraform as hcl
from penstock.tables.formats.cloudformation import read_template
from penstock.web.dashboard.items.item_text import BadItem, read_item
from trust import fuzz_imports as imports
from trust import fuzz_seeds as seeds
from trust import fuzz_tables as tables


class Refused(Exception):
    """The reader has said what is wrong, as it should."""


@dataclass(frozen=True)
class Target:
    name: str
    read: Callable[[bytes], Any]
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()
    """What inputs of this kind are made of."""


@contextmanager
def refusing(*errors: type[Exception]) -> Iterator[None]:
    try:
        yield
    except InternalServerError:
        raise  # the engine's word for a fault of its own
    except errors as error:
        raise Refused(str(error)) from None


@cache
def engine() -> Engine:
    made = Engine()
    made.maintenance.stop()
    for definition in seeds.TABLES:
        made.execute("CreateTable", definition)
    for item in seeds.ITEMS:
        made.execute("PutItem", {"TableName": "fuzzed", "Item": item})
    return made


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _asked(operation: str, member: str) -> Callable[[bytes], None]:
    """An expression in a request in which everything else is as it should be."""

    def read(data: bytes) -> None:
        text = _text(data)
        request = {"TableName": "fuzzed", **seeds.REQUESTS[operation], member: text}
        used = {name: value for name, value in seeds.VALUES.items() if name in text}  # one too many is an error
        if used:
            request["ExpressionAttributeValues"] = used
        with refusing(DynamoDBError):
            engine().execute(operation, request)

    return read


def _statement(data: bytes) -> None:
    text, _, parameters = _text(data).partition("\x1f")
    request: dict[str, Any] = {"Statement": text}
    if parameters:
        request["Parameters"] = [{"S": one} for one in parameters.split("\x1f")]
    with refusing(DynamoDBError):
        engine().execute("ExecuteStatement", request)


def _body(data: bytes) -> None:
    """An operation's name, a line break, and the body of a request to it."""
    name, _, body = data.partition(b"\n")
    operation = name.decode("latin-1")
    if operation not in OPERATIONS:
        operation = "PutItem"
    with refusing(DynamoDBError, orjson.JSONDecodeError):
        engine().answer(operation, orjson.loads(body))


@cache
def _router() -> Router:
    return Router(OPERATIONS, verifier=Verifier({"AKID": "secret"}), now=lambda: 1_440_938_160.0)


class _Heard:
    """Routes what the parser has read, as a connection does."""

    def __init__(self) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.url = self.body = b""
        self.parser = H11Parser(self)

    def on_message_begin(self) -> None:
        self.headers, self.url, self.body = {}, b"", b""

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_headers_complete(self) -> None: ...

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        chosen_encoding(self.headers.get(b"accept-encoding", b""))
        _router().route(self.parser.get_method(), self.url, self.headers, self.body)


def _http(data: bytes) -> None:
    try:
        with refusing(ParserError, RefusedReply, DynamoDBError, BodyTooLarge):
            _Heard().parser.feed_data(data)
    except InternalServerError as error:
        raise Refused(str(error)) from None  # DynamoDB's own word for a body that cannot be unpacked


def _answer(data: bytes) -> None:
    with refusing(Malformed):
        for reader in (FastReader(1_000_000), PlainReader(1_000_000)):
            reader.feed(data)
            reader.end()


def _reading(read: Callable[[bytes], Any], *errors: type[Exception]) -> Callable[[bytes], None]:
    def target(data: bytes) -> None:
        with refusing(PenstockError, *errors):
            read(data)

    return target


TARGETS = {
    target.name: target
    for target in (
        Target("condition", _asked("PutItem", "ConditionExpression"), seeds.CONDITIONS, seeds.EXPRESSION_WORDS),
        Target("filter", _asked("Scan", "FilterExpression"), seeds.CONDITIONS, seeds.EXPRESSION_WORDS),
        Target("key", _asked("Query", "KeyConditionExpression"), seeds.KEYS, seeds.EXPRESSION_WORDS),
        Target("update", _asked("UpdateItem", "UpdateExpression"), seeds.UPDATES, seeds.EXPRESSION_WORDS),
        Target("projection", _asked("GetItem", "ProjectionExpression"), seeds.PROJECTIONS, seeds.EXPRESSION_WORDS),
        Target("partiql", _statement, seeds.STATEMENTS, seeds.PARTIQL_WORDS),
        Target("body", _body, seeds.BODIES, seeds.JSON_WORDS),
        Target("http", _http, seeds.MESSAGES, seeds.HTTP_WORDS),
        Target("answer", _answer, seeds.ANSWERS, seeds.HTTP_WORDS),
        Target("item", _reading(lambda data: read_item(_text(data)), BadItem), seeds.TYPED_ITEMS, seeds.JSON_WORDS),
        Target("template", _reading(lambda data: read_template(_text(data))), seeds.TEMPLATES, seeds.JSON_WORDS),
        Target("export", _reading(lambda data: read_export(data, "fuzz.json")), seeds.EXPORTS, seeds.JSON_WORDS),
        Target(
            "hcl", _reading(lambda data: hcl.read_template(_text(data))), (tables.sample_hcl(),), seeds.DEFINITION_WORDS
        ),
        Target("stack", _reading(tables.read_stack), seeds.STACKS, seeds.DEFINITION_WORDS),
        Target("state", _reading(tables.read_json), seeds.STATES, seeds.DEFINITION_WORDS),
        Target(
            "definition",
            _reading(tables.read_definition, orjson.JSONDecodeError),
            seeds.DEFINITIONS,
            seeds.DEFINITION_WORDS,
        ),
        Target("plan", _reading(tables.read_plan), (tables.sample_plan(),), seeds.DEFINITION_WORDS),
        Target(
            "migration",
            _reading(tables.read_migrations, orjson.JSONDecodeError),
            seeds.MIGRATIONS,
            seeds.JSON_WORDS,
        ),
        Target("csv", _reading(tables.read_csv_items), seeds.ITEM_TABLES, seeds.CSV_WORDS),
        Target("lines", _reading(tables.read_lines), seeds.ITEM_LINES, seeds.JSON_WORDS),
        Target("ion", _reading(imports.read_values), imports.VALUES, seeds.ION_WORDS),
        Target("rows", _reading(imports.read_rows), imports.ROWS, seeds.CSV_WORDS),
        Target("objects", _reading(imports.read_lines), (imports.LINES,), seeds.JSON_WORDS),
        Target("gzip", _reading(imports.read_zipped), imports.ZIPPED),
        *([Target("zstd", _reading(imports.read_zstd), imports.packed())] if imports.HAS_ZSTD else []),
        Target("comments", _reading(parse_conversation), seeds.COMMENTS, (b",", b'"', b"\n", b"\r", b"\x00", b"-1")),
        Target("context", _reading(lambda data: context_of(document_text("a.docx", data))), seeds.DOCUMENTS),
        Target("drawing", _reading(read_drawing), seeds.DRAWINGS, seeds.PDF_WORDS),
        Target(
            "cron", _reading(lambda data: Schedule.parse("a", _text(data)).after(0.0)), seeds.CRONS, seeds.CRON_WORDS
        ),
        Target("url", _reading(lambda data: parse_url(_text(data), {})), seeds.URLS, (b"://", b"?", b"%", b"[", b"]")),
        Target("type", _reading(lambda data: checked_type(_text(data)), ValueError), (b"text/plain; charset=utf-8",)),
        Target("token", _reading(lambda data: read_token(_text(data), "q"), InvalidToken), seeds.TOKENS),
    )
}
