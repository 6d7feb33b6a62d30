"""What a report may be asked for: one description, by which options are checked, stored and documented.

Anybody who may ask by HTTP may choose ReportOptions. Where the rows come from, and what the sheets look like, is chosen
by who runs the service (JobOptions): a source is a path, a URL or a function of the worker's machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.extras import extra
from penstock.systems.excel_reports.book.template import DEFAULT, Template
from penstock.systems.excel_reports.records import BadReport
from penstock.systems.excel_reports.sources.source import MOST_SOURCES

with extra("systems", "An Excel report"):
    from pydantic import Field, ValidationError

    from penstock.web.api.validation import StrictModel, error_sentences


MOST_IMAGES: Final = 500
"""Of a sheet: they are held in memory, made small."""


class ReportOptions(StrictModel):
    """How a report should be."""

    products: int = Field(default=200, ge=0, le=100_000, description="How many products the project has.")
    users: int = Field(default=60, ge=0, le=100_000, description="How many users it has.")
    images: int = Field(
        default=24, ge=0, le=MOST_IMAGES, description="How many products have their picture in the report."
    )
    by_category: bool = Field(
        default=False, alias="byCategory", description="A sheet more for each category of products."
    )
    seed: int = Field(default=0, ge=0, le=2**31, description="Another seed gives another project of the same name.")
    title: str = Field(default="", max_length=200, description="Over the summary; without one, the project's name.")

    def form(self) -> dict[str, Any]:
        """As JSON, all of them."""
        return self.model_dump(by_alias=True)


class JobOptions(ReportOptions):
    """All that a job has to know."""

    source: tuple[str, ...] = Field(
        default=(), max_length=MOST_SOURCES, strict=False, description="Where rows come from."
    )
    template: Template = Field(default=DEFAULT, description="What the sheets look like.")

    def form(self) -> dict[str, Any]:
        """As JSON; a job without a source of its own is stored as jobs always were."""
        form = super().form()
        del form["source"], form["template"]
        if self.source:
            form["source"] = list(self.source)
        if self.template != DEFAULT:
            form["template"] = self.template.form()
        return form


def checked_options(form: Mapping[str, Any] | None) -> JobOptions:
    """Raises BadReport with every error that there is; an option that there is not is one."""
    try:
        return JobOptions.model_validate(dict(form or {}))
    except ValidationError as error:
        raise BadReport([f"options: {one}" for one in error_sentences(error, JobOptions)]) from None
