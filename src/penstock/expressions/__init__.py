"""DynamoDB's expressions: text to tree to closures. Pure: it knows nothing of tables.

text ──tokens──▸ parser ──▸ tree ──checks──▸ compiled ──bind(names, values)──▸ closures
"""

from __future__ import annotations

from penstock.expressions.compiled.conditions import (
    Condition,
    KeyCondition,
    KeyTerm,
    Predicate,
    compile_condition,
    compile_key_condition,
)
from penstock.expressions.compiled.paths import Projection, Projector, compile_projection
from penstock.expressions.compiled.updates import BoundUpdate, Update, compile_update
from penstock.expressions.syntax.error_wording import ExpressionError
from penstock.expressions.syntax.tree import render

__all__ = [
    "BoundUpdate",
    "Condition",
    "ExpressionError",
    "KeyCondition",
    "KeyTerm",
    "Predicate",
    "Projection",
    "Projector",
    "Update",
    "compile_condition",
    "compile_key_condition",
    "compile_projection",
    "compile_update",
    "render",
]
