"""Definitions as Terraform's `aws_dynamodb_table`, and back; with as much of HCL as tables need.

body       = { attribute | block } .
attribute  = NAME "=" expression .
block      = NAME { TEXT } "{" body "}" .
expression = TEXT | NUMBER | "true" | "false" | list | map | reference .
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import PenstockError
from penstock.tables.definitions.aws_shapes import UNLIMITED
from penstock.tables.definitions.definition import (
    ON_DEMAND,
    PITR_DAYS,
    Attribute,
    Billing,
    Index,
    Key,
    Maximum,
    Naming,
    Table,
    Throughput,
)
from penstock.tables.definitions.export_file import ExportError
from penstock.tables.definitions.problems import check
from penstock.tables.definitions.resource_policy import policy_text


class HclError(PenstockError):
    """A text that is not HCL, or more of it than is read here; `line` is where."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Reference:
    """`data.aws_kms_key.jobs.arn`."""

    path: str


@dataclass(slots=True)
class Block:
    """`type "label" … { … }`; a whole file is a block without a type."""

    type: str = ""
    labels: tuple[str, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)

    def all(self, kind: str) -> list[Block]:
        return [one for one in self.blocks if one.type == kind]

    def one(self, kind: str) -> Block | None:
        return next(iter(self.all(kind)), None)


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def render(body: Block) -> str:
    """The text of a file, formatted as `terraform fmt` does."""
    return "\n\n".join("\n".join(_block_lines(one, "")) for one in body.blocks) + "\n"


def _block_lines(block: Block, indent: str) -> Iterator[str]:
    labels = "".join(f" {quote(one)}" for one in block.labels)
    yield f"{indent}{block.type}{labels} {{"
    inner = indent + "  "
    yield from _attribute_lines(block.attributes, inner)
    for at, one in enumerate(block.blocks):
        if at or block.attributes:
            yield ""
        yield from _block_lines(one, inner)
    yield f"{indent}}}"


def _attribute_lines(attributes: dict[str, Any], indent: str) -> Iterator[str]:
    """Neighbours have their signs in one column; a map of several lines stands apart."""
    flat = {name: value for name, value in attributes.items() if not isinstance(value, dict)}
    width = max(map(len, flat), default=0)
    yield from (f"{indent}{name.ljust(width)} = {_expression(value)}" for name, value in flat.items())
    for name, value in attributes.items():
        if isinstance(value, dict):
            if flat:
                yield ""
            yield from _map_lines(name, value, indent)


def _map_lines(name: str, value: dict[str, Any], indent: str) -> Iterator[str]:
    if not value:
        yield f"{indent}{name} = {{}}"
        return
    keys = {key: quote(key) for key in value}
    width = max(map(len, keys.values()))
    yield f"{indent}{name} = {{"
    yield from (f"{indent}  {keys[key].ljust(width)} = {_expression(one)}" for key, one in value.items())
    yield f"{indent}}}"


def _expression(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return quote(value)
        case Reference(path):
            return path
        case list() | tuple():
            return f"[{', '.join(_expression(one) for one in value)}]"
        case _:
            raise TypeError(f"HCL has no {type(value).__name__} here")


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNESCAPES = {found[1]: text for text, found in _ESCAPES.items()}


def quote(text: str) -> str:
    """A text in quotes; what would start a template in it is doubled."""
    escaped = "".join(_ESCAPES.get(one, one) for one in text)
    return '"' + re.sub(r"([$%])\{", r"\1\1{", escaped) + '"'


# ── reading ──────────────────────────────────────────────────────────────────────────────────────

_TOKEN = re.compile(
    r"""(?P<space>[\s,]+|\#[^\n]*|//[^\n]*|/\*.*?\*/)
      | (?P<text>"(?:[^"\\\n]|\\.)*")
      | (?P<number>-?\d+(?:\.\d+)?)
      | (?P<name>[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*)
      | (?P<mark>[{}\[\]=:])""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int


class _Tokens:
    """The tokens of a text, looked at one by one."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_split(text))
        self._at = 0

    @property
    def next(self) -> _Token:
        return self._tokens[self._at]

    def take(self, *kinds: str) -> _Token:
        token = self.next
        if kinds and token.kind not in kinds and token.text not in kinds:
            raise HclError(token.line, f"{token.text or 'the end'!r} where {' or '.join(kinds)} was expected")
        self._at += 1
        return token

    def has(self, text: str) -> bool:
        return self.next.kind == "mark" and self.next.text == text


def parse(text: str) -> Block:
    """The blocks and attributes of a file. Raises HclError."""
    tokens = _Tokens(text)
    body = Block()
    _body(tokens, body)
    tokens.take("end")
    return body


def _split(text: str) -> Iterable[_Token]:
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise HclError(line, f"{text[at]!r} is not understood")
        if found.lastgroup != "space":
            yield _Token(found.lastgroup or "", found.group(), line)
        line += found.group().count("\n")
        at = found.end()
    yield _Token("end", "", line)


def _body(tokens: _Tokens, block: Block) -> None:
    """body = { attribute | block }."""
    while tokens.next.kind == "name":
        name = tokens.take("name")
        if tokens.has("="):
            tokens.take("=")
            block.attributes[name.text] = _read_expression(tokens)
        else:
            block.blocks.append(_block(tokens, name.text))


def _block(tokens: _Tokens, kind: str) -> Block:
    """block = NAME { TEXT } "{" body "}"."""
    labels = []
    while tokens.next.kind == "text":
        labels.append(unquote(tokens.take("text")))
    block = Block(kind, tuple(labels))
    tokens.take("{")
    _body(tokens, block)
    tokens.take("}")
    return block


def _read_expression(tokens: _Tokens) -> Any:
    """expression = TEXT | NUMBER | "true" | "false" | list | map | reference."""
    token = tokens.take("text", "number", "name", "[", "{")
    match token.kind, token.text:
        case "text", _:
            return unquote(token)
        case "number", text:
            return float(text) if "." in text else int(text)
        case "name", "true" | "false":
            return token.text == "true"
        case "name", path:
            return Reference(path)
        case _, "[":
            return _list(tokens)
        case _:
            return _map(tokens)


def _list(tokens: _Tokens) -> list[Any]:
    found = []
    while not tokens.has("]"):
        found.append(_read_expression(tokens))
    tokens.take("]")
    return found


def _map(tokens: _Tokens) -> dict[str, Any]:
    found = {}
    while not tokens.has("}"):
        key = tokens.take("text", "name")
        tokens.take("=", ":")
        found[unquote(key) if key.kind == "text" else key.text] = _read_expression(tokens)
    tokens.take("}")
    return found


def unquote(token: _Token) -> str:
    inner = token.text[1:-1]
    if re.search(r"(?<![$%])[$%]\{", inner):
        raise HclError(token.line, "templates in texts are not read here")
    plain = re.sub(r"([$%])\1\{", r"\1{", inner)
    return re.sub(r"\\(.)", lambda found: _UNESCAPES.get(found.group(1), found.group()), plain)


RESOURCE = "aws_dynamodb_table"
KMS_KEY = "aws_kms_key"
POLICY = "aws_dynamodb_resource_policy"

_IGNORED = {
    "billing": ("billing_mode", "read_capacity", "write_capacity"),
    "deletion_protection": ("deletion_protection_enabled",),
    "on_demand_max": ("on_demand_throughput",),
    "pitr": ("point_in_time_recovery",),
    "sse": ("server_side_encryption",),
    "stream": ("stream_enabled", "stream_view_type"),
    "table_class": ("table_class",),
    "tags": ("tags", "tags_all"),
    "ttl": ("ttl",),
    "warm": ("warm_throughput",),
}
"""What Terraform calls the members of `ignore`. It has no name for the capacity of one index alone."""

MULTI_ATTRIBUTE_PROVIDER = ">= 6.37"
"""The provider knows index keys of several attributes since 6.29, and until 6.37 had mistakes in removing them."""


def template_text(tables: Iterable[Table], naming: Naming, *, imports: bool = False) -> str:
    """A Terraform file with these tables under their full names. `prevent_destroy` keeps a plan that would delete
    data from being carried out. With `imports`, Terraform (1.5 or newer) takes over the tables that exist.
    """
    blocks: list[Block] = []
    labels: list[str] = []
    several = list(tables)
    if any(_is_multiple(index) for table in several for index in table.indexes):
        blocks.append(_provider())
    for table in several:
        labels.append(label(table.name, labels))
        blocks += _key_blocks(table, labels[-1])
        if imports:
            place = Reference(f"{RESOURCE}.{labels[-1]}")
            blocks.append(Block("import", (), {"to": place, "id": naming.full_name(table.name)}))
        blocks.append(_resource(table, labels[-1], naming.full_name(table.name)))
        if table.resource_policy:
            blocks.append(_policy(table, labels[-1]))
    # Terraform's provider is not known to have vector indexes: the file says what it leaves out.
    unwritten = [f"# {naming.full_name(table.name)}: vector index {one.name} is not written\n"
                 for table in several for one in table.vector_indexes]  # fmt: skip
    return "".join(unwritten) + render(Block(blocks=blocks))


def label(name: str, taken: Iterable[str] = ()) -> str:
    """`company-users` → `company_users`: what Terraform takes for a name, and no other table's."""
    base = re.sub(r"\W", "_", name, flags=re.ASCII)
    base = base if re.match(r"[A-Za-z_]", base) else f"table_{base}"
    used, number, found = set(taken), 2, base
    while found in used:
        found, number = f"{base}_{number}", number + 1
    return found


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def _provider() -> Block:
    aws = {"source": "hashicorp/aws", "version": MULTI_ATTRIBUTE_PROVIDER}
    return Block("terraform", blocks=[Block("required_providers", attributes={"aws": aws})])


def _key_blocks(table: Table, name: str) -> list[Block]:
    """Terraform wants the key's ARN, which an alias or an id leads to."""
    if isinstance(table.sse, str) and not table.sse.startswith("arn:"):
        return [Block("data", (KMS_KEY, name), {"key_id": table.sse})]
    return []


def _resource(table: Table, name: str, full_name: str) -> Block:
    attributes: dict[str, Any] = {"name": full_name, **_capacity(table.billing), **_key(table.key)}
    if table.stream is not None:
        attributes |= {"stream_enabled": True, "stream_view_type": table.stream}
    if table.table_class is not None:
        attributes["table_class"] = table.table_class
    if table.deletion_protection is not None:
        attributes["deletion_protection_enabled"] = table.deletion_protection
    if table.tags is not None:
        attributes["tags"] = dict(table.tags)
    return Block("resource", (RESOURCE, name), attributes, _parts(table, name))


def _policy(table: Table, name: str) -> Block:
    """A resource of its own. To put a policy that is there already is no change of it, so that it has no import."""
    members = {"resource_arn": Reference(f"{RESOURCE}.{name}.arn"), "policy": table.resource_policy}
    ignored = {"ignore_changes": [Reference("policy")]} if "resource_policy" in table.ignore else {}
    return Block("resource", (POLICY, name), members, [Block("lifecycle", (), ignored)] if ignored else [])


def _capacity(billing: Billing) -> dict[str, Any]:
    if isinstance(billing, Throughput):
        return {"billing_mode": "PROVISIONED", "read_capacity": billing.read, "write_capacity": billing.write}
    return {"billing_mode": "PAY_PER_REQUEST"}


def _key(key: Key) -> dict[str, str]:
    names = {"hash_key": key.hash, "range_key": key.range}
    return {member: part[0].name for member, part in names.items() if part}


def _parts(table: Table, name: str) -> list[Block]:
    parts = [Block("attribute", (), {"name": one.name, "type": one.type}) for one in table.attributes]
    parts += [_global_index(one) for one in table.global_indexes]
    parts += [_local_index(one) for one in table.local_indexes]
    parts += _limits(table.on_demand_max, table.warm)
    if table.ttl is not None:
        parts.append(Block("ttl", (), {"attribute_name": table.ttl, "enabled": True}))
    if table.pitr is not None:
        days = {"recovery_period_in_days": table.pitr} if table.pitr else {}
        parts.append(Block("point_in_time_recovery", (), {"enabled": table.pitr > 0, **days}))
    if table.sse is not None:
        parts.append(_encryption(table.sse, name))
    ignored = [Reference(one) for member in table.ignore for one in _IGNORED.get(member, ())]
    return [
        *parts,
        Block("lifecycle", (), {"prevent_destroy": True, **({"ignore_changes": ignored} if ignored else {})}),
    ]


def _global_index(index: Index) -> Block:
    attributes: dict[str, Any] = {"name": index.name}
    blocks: list[Block] = []
    if _is_multiple(index):
        blocks += [
            Block("key_schema", (), {"attribute_name": one.name, "key_type": role})
            for role, part in (("HASH", index.key.hash), ("RANGE", index.key.range))
            for one in part
        ]
    else:
        attributes |= _key(index.key)
    attributes |= _projection(index)
    if index.throughput is not None:
        attributes |= {"read_capacity": index.throughput.read, "write_capacity": index.throughput.write}
    return Block("global_secondary_index", (), attributes, blocks + _limits(index.on_demand_max, index.warm))


def _local_index(index: Index) -> Block:
    attributes = {"name": index.name, "range_key": index.key.range[0].name, **_projection(index)}
    return Block("local_secondary_index", (), attributes)


def _projection(index: Index) -> dict[str, Any]:
    if isinstance(index.projection, str):
        return {"projection_type": index.projection}
    return {"projection_type": "INCLUDE", "non_key_attributes": list(index.projection)}


def _limits(maximum: Maximum | None, warm: Throughput | None) -> list[Block]:
    blocks = []
    if maximum is not None:
        read, write = (UNLIMITED if one is None else one for one in (maximum.read, maximum.write))
        units = {"max_read_request_units": read, "max_write_request_units": write}
        blocks.append(Block("on_demand_throughput", (), units))
    if warm is not None:
        units = {"read_units_per_second": warm.read, "write_units_per_second": warm.write}
        blocks.append(Block("warm_throughput", (), units))
    return blocks


def _encryption(sse: bool | str, name: str) -> Block:
    attributes: dict[str, Any] = {"enabled": sse is not False}
    if isinstance(sse, str):
        attributes["kms_key_arn"] = sse if sse.startswith("arn:") else Reference(f"data.{KMS_KEY}.{name}.arn")
    return Block("server_side_encryption", (), attributes)


def _is_multiple(index: Index) -> bool:
    return len(index.key.hash) > 1 or len(index.key.range) > 1


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def read_template(text: str, file: str = "tables.tf") -> tuple[Table, ...]:
    """The tables that a Terraform file declares, under the names that it gives them. No variables, no functions.

    Raises ExportError for what is no such file.
    """
    try:
        body = parse(text)
        keys = {one.labels[1]: one.attributes["key_id"] for one in body.all("data") if one.labels[:1] == (KMS_KEY,)}
        policies = {one.labels[1]: one for one in body.all("resource") if one.labels[:1] == (POLICY,)}
        found = [_read(one, keys, policies) for one in body.all("resource") if one.labels[:1] == (RESOURCE,)]
    except HclError as error:
        raise ExportError(file, error.reason, line=error.line, column=1) from None
    except RecursionError:
        raise ExportError(file, "it is nested too deep") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise ExportError(file, f"it is no template of tables ({error!r})") from error
    for table in found:
        check(table)
    return tuple(found)


def _read(block: Block, keys: Mapping[str, str], policies: Mapping[str, Block]) -> Table:
    given = block.attributes
    types = {one.attributes["name"]: one.attributes["type"] for one in block.all("attribute")}
    key = _read_key(block, types)
    billing = _read_capacity(given)
    indexes = [_read_index(one, types, key.hash) for one in block.blocks if one.type.endswith("_secondary_index")]
    ttl = block.one("ttl")
    return Table.unchecked(
        name=given["name"],
        key=key,
        indexes=tuple(sorted(indexes, key=lambda one: one.name)),
        ttl=ttl.attributes["attribute_name"] if ttl is not None and ttl.attributes.get("enabled") else None,
        stream=given["stream_view_type"] if given.get("stream_enabled") else None,
        pitr=_read_recovery(block.one("point_in_time_recovery")),
        tags=given.get("tags"),
        billing=billing,
        on_demand_max=_read_maximum(block),
        warm=_read_warm(block),
        table_class=given.get("table_class"),
        deletion_protection=given.get("deletion_protection_enabled"),
        sse=_read_encryption(block.one("server_side_encryption"), keys),
        ignore=_read_ignored(block, policies.get(block.labels[1])),
        resource_policy=policy_text(policies[block.labels[1]].attributes["policy"])
        if block.labels[1] in policies
        else None,
    )


def _read_ignored(block: Block, policy: Block | None) -> tuple[str, ...]:
    lifecycles = [one.one("lifecycle") for one in (block, policy) if one is not None]
    given = [one.attributes.get("ignore_changes", ()) for one in lifecycles if one is not None]
    paths = {one.path for several in given for one in several}
    found = [member for member, theirs in _IGNORED.items() if paths.issuperset(theirs)]
    return tuple(sorted([*found, *(["resource_policy"] if "policy" in paths else [])]))


def _read_capacity(given: Mapping[str, Any]) -> Billing:
    if given.get("billing_mode") == "PAY_PER_REQUEST":
        return ON_DEMAND
    return Throughput(given["read_capacity"], given["write_capacity"])


def _read_key(block: Block, types: Mapping[str, str]) -> Key:
    parts: dict[str, list[str]] = {"HASH": [], "RANGE": []}
    for role, member in (("HASH", "hash_key"), ("RANGE", "range_key")):
        parts[role] += [block.attributes[member]] if member in block.attributes else []
    for one in block.all("key_schema"):
        parts[one.attributes["key_type"]].append(one.attributes["attribute_name"])
    read = {role: tuple(Attribute(name, types[name]) for name in names) for role, names in parts.items()}
    return Key(read["HASH"], read["RANGE"])


def _read_index(block: Block, types: Mapping[str, str], table_hash: tuple[Attribute, ...]) -> Index:
    given = block.attributes
    local = block.type == "local_secondary_index"
    key = _read_key(block, types)
    kept = given["projection_type"]
    units = Throughput(given["read_capacity"], given["write_capacity"]) if "read_capacity" in given else None
    return Index(
        given["name"],
        key=Key(table_hash, key.range) if local else key,
        projection=given["non_key_attributes"] if kept == "INCLUDE" else kept,
        local=local,
        throughput=units,
        on_demand_max=_read_maximum(block),
        warm=_read_warm(block),
    )


def _read_maximum(block: Block) -> Maximum | None:
    found = block.one("on_demand_throughput")
    if found is None:
        return None
    units = [found.attributes.get(f"max_{one}_request_units", UNLIMITED) for one in ("read", "write")]
    return Maximum(*(None if one == UNLIMITED else one for one in units))


def _read_warm(block: Block) -> Throughput | None:
    found = block.one("warm_throughput")
    if found is None:
        return None
    return Throughput(found.attributes["read_units_per_second"], found.attributes["write_units_per_second"])


def _read_recovery(block: Block | None) -> int | None:
    if block is None:
        return None
    return int(block.attributes.get("recovery_period_in_days", PITR_DAYS)) if block.attributes["enabled"] else 0


def _read_encryption(block: Block | None, keys: Mapping[str, str]) -> bool | str | None:
    if block is None:
        return None
    if not block.attributes["enabled"]:
        return False
    match block.attributes.get("kms_key_arn"):
        case None:
            return True
        case Reference(path):
            return keys[path.split(".")[2]]
        case arn:
            return str(arn)
