"""DynamoDB's expressions: text to tree to closures. Pure: it knows nothing of tables.

text ──tokens──▸ parser ──▸ tree ──checks──▸ compiled ──bind(names, values)──▸ closures
"""

from __future__ import annotations

from penstock.expressions.conditions import Condition, compile_condition
from penstock.expressions.evaluate import Predicate
from penstock.expressions.key_conditions import KeyCondition, KeyTerm, compile_key_condition
from penstock.expressions.projections import Projection, Projector, compile_projection
from penstock.expressions.render import render
from penstock.expressions.updates import BoundUpdate, Update, compile_update
from penstock.expressions.wording import ExpressionError

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
