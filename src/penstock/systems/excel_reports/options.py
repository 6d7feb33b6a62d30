"""What a report may be asked for: one description, by which options are checked, stored and documented."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.extras import extra
from penstock.systems.excel_reports.records import BadReport

with extra("systems", "An Excel report"):
    from pydantic import Field, ValidationError

    from penstock.web.api.validation import StrictModel, error_sentences


class ReportOptions(StrictModel):
    """How a report should be."""

    products: int = Field(default=200, ge=0, le=100_000, description="How many products the project has.")
    users: int = Field(default=60, ge=0, le=100_000, description="How many users it has.")
    images: int = Field(default=24, ge=0, le=500, description="How many products have their picture in the report.")
    by_category: bool = Field(
        default=False, alias="byCategory", description="A sheet more for each category of products."
    )
    seed: int = Field(default=0, ge=0, le=2**31, description="Another seed gives another project of the same name.")
    title: str = Field(default="", max_length=200, description="Over the summary; without one, the project's name.")

    def form(self) -> dict[str, Any]:
        """As JSON, all of them."""
        return self.model_dump(by_alias=True)


def checked_options(form: Mapping[str, Any] | None) -> ReportOptions:
    """Raises BadReport with every error that there is; an option that there is not is one."""
    try:
        return ReportOptions.model_validate(dict(form or {}))
    except ValidationError as error:
        raise BadReport([f"options: {one}" for one in error_sentences(error, ReportOptions)]) from None
