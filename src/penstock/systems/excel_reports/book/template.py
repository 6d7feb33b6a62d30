"""The file that describes a report, in TOML: sheets, columns, their order, formats, totals and charts.

Everything in it may be left out: what it does not say is inferred from the data. It is checked when a report is asked
for, with all of its errors at once, and stored with the job.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from penstock.extras import extra
from penstock.systems.excel_reports.records import BadReport

with extra("systems", "An Excel report"):
    from pydantic import Field, ValidationError

    from penstock.web.api.validation import StrictModel, error_sentences

FILE_NAME: Final = "report.toml"
"""In the folder of a source: it is used without being named."""
TEMPLATE_BYTES: Final = 64 * 1024
"""It is stored in the job's item, which may have 400 KB with everything else."""

Total = Literal["sum", "average", "count", "min", "max", "none"]
Highlight = Literal["bar", "scale", "none"]
ChartKind = Literal["bar", "column", "line", "pie"]
FORMATS: Final = ("text", "number", "whole", "money", "percent", "date", "time", "yes-no", "picture")


class ColumnTemplate(StrictModel):
    """One column."""

    field: str = Field(min_length=1, max_length=500, description="The name that it has in the data.")
    heading: str = Field(default="", max_length=200, description="Above it; without one, the field's name in words.")
    format: str = Field(default="", max_length=100, description=f"{', '.join(FORMATS)}, or a format of Excel's.")
    width: float | None = Field(default=None, ge=1, le=255, description="In characters.")
    total: Total | None = Field(default=None, description="In the last row.")
    highlight: Highlight | None = Field(default=None, description="A bar in each cell, or a scale of colours.")
    below: float | None = Field(default=None, description="Numbers below this are red.")
    above: float | None = Field(default=None, description="Numbers above this are red.")
    day_first: bool | None = Field(default=None, description="Whether 01/02/2026 is in February.")
    decimal: Literal[".", ","] | None = Field(default=None, description="The decimal mark of numbers in text.")
    statistic: str = Field(default="", max_length=50, description="The total's name in the job's statistics.")


class ChartTemplate(StrictModel):
    """One chart of the cover."""

    by: str = Field(
        min_length=1, max_length=500, description="The field that makes the groups; of a date, its month or quarter."
    )
    value: str = Field(default="", max_length=500, description="The field that is summed up; without one, rows count.")
    kind: ChartKind | None = Field(default=None, description="bar for groups, column for time.")
    title: str = Field(default="", max_length=200)


class SheetTemplate(StrictModel):
    """One sheet."""

    name: str = Field(min_length=1, max_length=200)
    dataset: str = Field(default="", max_length=500, description="Whose rows; else those of its name.")
    columns: tuple[ColumnTemplate, ...] = Field(default=(), max_length=500, strict=False)
    others: bool = Field(default=False, description="Whether the columns that are not listed follow.")
    sort: tuple[str, ...] = Field(default=(), max_length=10, strict=False, description="-field is from high to low.")
    split: str = Field(default="", max_length=500, description="A sheet more for each value of this field.")
    totals: bool = True
    charts: tuple[ChartTemplate, ...] | None = Field(default=None, max_length=12, strict=False)

    @property
    def source(self) -> str:
        return self.dataset or self.name


class Template(StrictModel):
    """A report."""

    title: str = Field(default="", max_length=200)
    currency: str = Field(default="", max_length=5, description="Beside numbers of the format money.")
    picture_hosts: tuple[str, ...] = Field(
        default=(), max_length=20, strict=False, description="Hosts that pictures may be fetched from."
    )
    sheets: tuple[SheetTemplate, ...] = Field(default=(), max_length=100, strict=False)

    def form(self) -> dict[str, Any]:
        """As JSON, without what was left out."""
        return self.model_dump(mode="json", exclude_defaults=True)


DEFAULT: Final = Template()


def checked_template(form: Mapping[str, Any], where: str = "template") -> Template:
    """Raises BadReport with every error that there is."""
    try:
        return Template.model_validate(dict(form))
    except ValidationError as error:
        raise BadReport([f"{where}: {one}" for one in error_sentences(error, Template)]) from None


def read_template(path: Path) -> Template:
    """The template in a TOML file. Raises BadReport."""
    try:
        with path.open("rb") as file:
            data = file.read(TEMPLATE_BYTES + 1)
    except OSError as error:
        raise BadReport([f"template {path}: {error.strerror or error}"]) from error
    if len(data) > TEMPLATE_BYTES:
        raise BadReport([f"template {path}: it has more than {TEMPLATE_BYTES // 1024} KB"])
    try:
        form = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadReport([f"template {path} is no TOML: {error}"]) from error
    return checked_template(form, path.name)
