"""ListTables: names in order, a page at a time."""

from __future__ import annotations

from penstock.engine.context import OperationContext
from penstock.engine.operations.table_states import find_table
from penstock.engine.registry import Request, Response, operation

_PAGE = 100


@operation("ListTables", "snapshot")
def list_tables(context: OperationContext, request: Request) -> Response:
    limit = request.get("Limit", _PAGE)
    names = _names(context, request.get("ExclusiveStartTableName", ""), limit + 1)
    response: Response = {"TableNames": names[:limit]}
    if len(names) > limit:
        response["LastEvaluatedTableName"] = names[limit - 1]
    return response


def _names(context: OperationContext, after: str, count: int) -> list[str]:
    """The first `count` names after `after`; tables whose deletion is over are passed over."""
    names: list[str] = []
    while len(names) < count:
        page = context.engine.catalog.names(context.db, context.scope, after, count)
        names += [name for name in page if find_table(context, name) is not None]
        if len(page) < count:
            break
        after = page[-1]
    return names[:count]
