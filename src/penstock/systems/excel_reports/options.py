"""What a report may be asked for: one description, by which options are checked, stored and documented."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from penstock.systems.excel_reports.records import BadReport
from penstock.systems.shapes import Between, Length, Misshapen, Named, members, parse


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """How a report should be."""

    products: Annotated[int, Between(0, 100_000), "How many products the project has."] = 200
    users: Annotated[int, Between(0, 100_000), "How many users it has."] = 60
    images: Annotated[int, Between(0, 500), "How many products have their picture in the report."] = 24
    by_category: Annotated[bool, Named("byCategory"), "A sheet more for each category of products."] = False
    seed: Annotated[int, Between(0, 2**31), "Another seed gives another project of the same name."] = 0
    title: Annotated[str, Length(0, 200), "Over the summary; without one, the project's name."] = ""

    def form(self) -> dict[str, Any]:
        """As JSON, all of them."""
        return {member.name: getattr(self, member.field) for member in members(ReportOptions)}


def checked_options(form: Mapping[str, Any] | None) -> ReportOptions:
    """Raises BadReport with every error that there is; an option that there is not is one."""
    try:
        found: ReportOptions = parse(ReportOptions, dict(form or {}))
    except Misshapen as wrong:
        raise BadReport([f"options: {error}" for error in wrong.errors]) from None
    return found
