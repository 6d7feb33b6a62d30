"""A file of definitions: which tool wrote it, and its tables under the names that it gives them.

- a CloudFormation template, in YAML or JSON
- what `terraform show -json` prints, of a plan or a state
- one table, or a list of them, in DescribeTable's shape: `aws dynamodb describe-table`, `penstock tables export`
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.export_file import ExportError, NeedsStep, read_description
from penstock.tables.definitions.readers.cloudformation import Template, is_template, read_template
from penstock.tables.definitions.readers.documents import YAML_NAMES, read_document
from penstock.tables.definitions.readers.terraform_json import is_terraform, read_terraform

FILE_NAMES = (".json", ".tf", ".tfstate", ".tfplan", *YAML_NAMES)
"""What the names of such files end with."""


def is_definition_file(given: str) -> bool:
    """Whether DEFINITIONS is the name of such a file, which may be missing."""
    return given.lower().endswith(FILE_NAMES) or Path(given).is_file()


def read_definition_file(path: Path, parameters: Mapping[str, str] | None = None) -> Template:
    """Raises ExportError for a file that is none of these, DefinitionError for a table that cannot be made."""
    file = str(path)
    if path.suffix in (".tf", ".tfplan"):
        step = "run `terraform show -json > tables.json` beside it, and give that file"
        raise NeedsStep(file, f"Terraform's own files are not read, for only Terraform can evaluate them: {step}")
    document = read_document(path)
    if is_template(document):
        found = read_template(document, file, parameters)
    elif parameters:
        raise ExportError(file, f"--parameter {next(iter(parameters))}: it is no CloudFormation template")
    elif is_terraform(document):
        found = read_terraform(document, file)
    else:
        found = Template(_described(document, path))
    if not found.tables:
        raise ExportError(file, "there is no DynamoDB table in it")
    return found


def _descriptions(document: Any, file: str) -> list[Any]:
    if isinstance(document, dict) and "lineage" in document:
        step = "run `terraform show -json > tables.json`, and give that file"
        raise NeedsStep(file, f"it is Terraform's raw state, whose form is Terraform's own affair: {step}")
    several = document if isinstance(document, list) else [document]
    for one in several:
        if not isinstance(one, dict) or not isinstance(one.get("Table", one), dict):
            raise ExportError(file, "it is no definition")
        if not {"AttributeDefinitions", "KeySchema", "TableName"} & one.get("Table", one).keys():
            if one.get("format") == "penstock tables plan":
                raise ExportError(file, "it is a saved plan, which only `penstock tables apply` reads")
            kinds = "a CloudFormation template, the output of `terraform show -json`, or a table's description"
            raise ExportError(file, f"it is not {kinds}")
    return several


def _described(document: Any, path: Path) -> tuple[Table, ...]:
    """With the text where it is JSON, so that an error has its line."""
    file = str(path)
    text = b"" if path.suffix.lower() in YAML_NAMES else path.read_bytes()
    return tuple(
        read_description(one, file, text=text, pointer=f"/{at}" if isinstance(document, list) else "")
        for at, one in enumerate(_descriptions(document, file))
    )
