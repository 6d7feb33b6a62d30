"""Capabilities: code asks a database for what it needs, not for the class of the transport that answers."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import penstock
from penstock.client.database import Database
from penstock.client.transports.base import Capabilities
from penstock.client.wrappers.faults import Faults, Rates
from penstock.client.wrappers.metering import Metering
from penstock.client.wrappers.retries import Retrying
from penstock.errors import PenstockError

SOURCE = Path(penstock.__file__).parent
TRANSPORTS = SOURCE / "client" / "transports"


class NamedOnly:
    """The least that a transport is."""

    name = "elsewhere"

    def execute(self, operation, request):
        return {"operation": operation}

    def close(self):
        pass


def test_the_engine_of_this_process_offers_everything():
    with penstock.connect() as db:
        assert db.capabilities == Capabilities(
            shares_commits=True,
            local_order=True,
            parallel_calls=1,
            metered=False,
            delayed_streams=False,
            has_engine=True,
            tells_changes=True,
        )


@pytest.mark.parametrize(
    ("url", "local_order"),
    [("http://localhost:1", True), ("aws://eu-west-2", False), ("https://dynamodb.eu-west-2.amazonaws.com", False)],
)
def test_a_database_behind_a_network_has_its_order_unless_it_is_at_aws(url, local_order):
    with penstock.connect(url) as db:
        here = Capabilities(local_order=local_order, tells_changes=local_order, tells_settings=not local_order)
        assert db.capabilities == here
    with penstock.connect(url, via="boto") as db:
        assert db.capabilities == Capabilities(local_order=local_order, tells_settings=not local_order)


@pytest.mark.parametrize("wrap", [Retrying, Metering, lambda inner: Faults(inner, Rates())])
def test_behind_a_wrapper_calls_share_no_commit(wrap):
    with penstock.connect() as db:
        wrapped = Database(wrap(wrap(db.transport)))
        assert wrapped.capabilities == db.capabilities.wrapped
        assert not wrapped.capabilities.shares_commits
        assert wrapped.loading("jobs") is None
        assert wrapped.engine is db.engine
        assert wrapped.execute_together([("ListTables", {}), ("ListTables", {})]) == [{"TableNames": []}] * 2


def test_a_transport_that_states_nothing_is_a_dynamodb_behind_a_network():
    db = Database(NamedOnly())
    assert db.capabilities == Capabilities()
    assert db.execute_together([("ListTables", {})]) == [{"operation": "ListTables"}]
    with pytest.raises(PenstockError, match="elsewhere is remote"):
        _ = db.engine


def test_nobody_outside_the_transports_asks_for_a_transports_class():
    kinds = {
        node.name
        for path in TRANSPORTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and node.name.endswith("Transport")
    }
    assert {"EmbeddedTransport", "RemoteTransport", "BotoTransport", "Transport"} <= kinds
    asks = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        if TRANSPORTS not in path.parents
        for node in ast.walk(ast.parse(path.read_text()))
        if _asks_for_class(node, kinds) or _asks_a_transport(node)
    ]
    assert asks == []


def _asks_for_class(node: ast.AST, kinds: set[str]) -> bool:
    """isinstance(…, EmbeddedTransport), type(…) is RemoteTransport."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, asked]):
            return any(isinstance(name, ast.Name) and name.id in kinds for name in ast.walk(asked))
        case ast.Compare():
            return any(isinstance(name, ast.Name) and name.id in kinds for name in ast.walk(node))
    return False


def _asks_a_transport(node: ast.AST) -> bool:
    """getattr(db.transport, "engine", None)."""
    match node:
        case ast.Call(func=ast.Name(id="getattr" | "hasattr"), args=[asked, *_]):
            names = (
                each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in ast.walk(asked)
            )
            return any(name in ("transport", "_transport") for name in names)
    return False
