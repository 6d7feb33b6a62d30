"""The two variants of a system's schema."""

from __future__ import annotations

from typing import Literal, get_args

SchemaVariant = Literal["safe", "compat"]
"""`compat` is the layout that the system was first described with; `safe`, the default, is the repaired one."""


def check_variant(layout: str) -> None:
    """Raises ValueError for a layout that there is not."""
    if layout not in get_args(SchemaVariant):
        raise ValueError(f"There is no layout {layout!r}: there are {' and '.join(get_args(SchemaVariant))}")
