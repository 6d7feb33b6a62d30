"""The embedded engine: DynamoDB's operations on SQLite."""

from penstock.engine.engine import Engine, Pending
from penstock.engine.settings import DEFAULT_SCOPE, Scope, Settings

__all__ = ["DEFAULT_SCOPE", "Engine", "Pending", "Scope", "Settings"]
