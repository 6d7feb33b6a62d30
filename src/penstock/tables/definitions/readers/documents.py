"""A file's JSON or YAML as plain values.

1. YAML makes plain values only: its loader is the safe one, and CloudFormation's `!Sub` is `{"Fn::Sub": …}`.
2. Reading is bounded: a file has a largest size, and what its aliases unfold to has a largest number of values.
3. A member that is written twice is an error: readers differ on which of the two counts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.extras import extra
from penstock.tables.definitions.export_file import ExportError

LARGEST_JSON_BYTES = 64 * 1024 * 1024
"""The plan of a large Terraform workspace has some tens of megabytes."""

LARGEST_YAML_BYTES = 1024 * 1024
"""CloudFormation's own limit for a template."""

MOST_VALUES = 2_000_000
"""More than a JSON file of that size usually has, and far less than a few nested aliases unfold to."""

YAML_NAMES = (".yaml", ".yml", ".template")


def read_document(path: Path) -> Any:
    """The values in a JSON or YAML file. Raises ExportError, with the line where one is known."""
    file = str(path)
    looks_yaml = path.suffix.lower() in YAML_NAMES
    try:
        size = path.stat().st_size
        text = path.read_bytes() if size <= LARGEST_JSON_BYTES else b""
    except OSError as error:
        raise ExportError(file, error.strerror or str(error)) from None
    if size > LARGEST_JSON_BYTES:
        raise ExportError(file, f"it has {size:,} bytes; a file of definitions has at most {LARGEST_JSON_BYTES:,}")
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ExportError(file, f"it is no text in UTF-8 ({error})") from None
    if looks_yaml and not decoded.lstrip().startswith("{"):
        if size > LARGEST_YAML_BYTES:
            raise ExportError(file, f"it has {size:,} bytes; a template in YAML has at most {LARGEST_YAML_BYTES:,}")
        document = parse_yaml(decoded, file)
    else:
        document = parse_json(decoded, file)
    _check_values(document, file)
    return document


def parse_json(text: str, file: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _members(pairs, file))
    except json.JSONDecodeError as error:
        raise ExportError(file, f"broken JSON: {error.msg}", line=error.lineno, column=error.colno) from None
    except RecursionError:
        raise ExportError(file, "it is nested too deep") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise ExportError(file, f"broken JSON: {error}") from None


def _members(pairs: list[tuple[str, Any]], file: str) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ExportError(file, f"the member {twice!r} is written twice in the same object")
    return members


def parse_yaml(text: str, file: str) -> Any:
    with extra("yaml", f"Reading {file}"):
        import yaml
    try:
        loader = _loader(yaml)(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = {} if mark is None else {"line": mark.line + 1, "column": mark.column + 1}
        raise ExportError(file, f"broken YAML: {error.problem or error.context}", **place) from None
    except yaml.YAMLError as error:
        raise ExportError(file, f"broken YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ExportError(file, "it is nested too deep") from None
    except ValueError as error:  # a date that is none, or a number of thousands of digits
        raise ExportError(file, f"broken YAML: {error}") from None


def _loader(yaml: Any) -> Any:
    class TemplateLoader(yaml.SafeLoader):  # type: ignore[misc]
        """The safe loader, with CloudFormation's short forms (1), and no member twice (3)."""

        def flatten_mapping(self, node: Any) -> None:
            # A merge copies its members at once: a few nested ones would fill the memory before anything is counted.
            for key, _ in node.value:
                if key.tag == "tag:yaml.org,2002:merge":
                    raise _problem(yaml, key, "merge keys (<<) are not read; CloudFormation has none either")

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                if not isinstance(key, yaml.ScalarNode):
                    raise _problem(yaml, key, "the name of a member must be a text")
                if key.value in seen:
                    raise _problem(yaml, key, f"the member {key.value!r} is written twice in the same mapping")
                seen.add(key.value)
            return super().construct_mapping(node, deep=deep)

    def short_form(loader: Any, suffix: str, node: Any) -> Any:
        """`!Ref x` → {"Ref": "x"}, `!GetAtt a.b` → {"Fn::GetAtt": ["a", "b"]}, `!Sub x` → {"Fn::Sub": "x"}."""
        if isinstance(node, yaml.ScalarNode):
            value: Any = loader.construct_scalar(node)
        elif isinstance(node, yaml.SequenceNode):
            value = loader.construct_sequence(node, deep=True)
        else:
            value = loader.construct_mapping(node, deep=True)
        if suffix == "GetAtt" and isinstance(value, str):
            value = value.split(".", 1)
        return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}

    TemplateLoader.add_multi_constructor("!", short_form)
    # `2010-09-09` is a version, and no date.
    TemplateLoader.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: loader.construct_scalar(node))
    return TemplateLoader


def _problem(yaml: Any, node: Any, text: str) -> Exception:
    found: Exception = yaml.constructor.ConstructorError(None, None, text, node.start_mark)
    return found


def _check_values(document: Any, file: str) -> None:
    """Raises ExportError if there are too many values, each counted as often as an alias repeats it (2)."""
    left, stack = MOST_VALUES, [document]
    while stack:
        value = stack.pop()
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        left -= len(inner)
        if left < 0:
            raise ExportError(file, f"it unfolds to more than {MOST_VALUES:,} values")
        stack += inner
