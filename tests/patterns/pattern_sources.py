"""Every regular expression of a package, found in its source.

1. A call of a function of `re` is a site. Its pattern is evaluated with the names of its module: a literal, a
   concatenation of constants, an f-string of constants.
2. A site whose pattern depends on a function's arguments cannot be read so. What it compiles while the package is
   imported is recorded instead (`compiled_on_import`).
3. How a compiled pattern is used (match, fullmatch, search, sub …) is read from the attributes of its name. A use
   that cannot be read counts as every use.
"""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

USES = {
    "match": "match",
    "fullmatch": "fullmatch",
    "search": "search",
    "findall": "all",
    "finditer": "all",
    "sub": "all",
    "subn": "all",
    "split": "all",
    "scanner": "tokens",
}
EVERY_USE = frozenset({"fullmatch", "all", "tokens"})
_HARMLESS = frozenset({"escape", "pattern", "flags", "groups", "groupindex", "purge", "error", "template"})
_FUNCTIONS = frozenset({"compile", *USES} - {"scanner"})


class Site(NamedTuple):
    """A call of `re` in the source, and each pattern that it is known to compile."""

    file: str
    line: int
    uses: frozenset[str]
    patterns: tuple[tuple[str | bytes, int], ...]

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


class Module(NamedTuple):
    file: str
    name: str
    tree: ast.Module


def read_modules(root: Path, package: str) -> list[Module]:
    found = []
    for path in sorted((root / package).rglob("*.py")):
        file = path.relative_to(root).as_posix()
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        found.append(Module(file, name, ast.parse(path.read_text(encoding="utf-8"), file)))
    return found


def other_imports(modules: list[Module]) -> list[str]:
    """Imports that would hide a pattern from `find_sites`: functions of `re` by name, or another engine."""
    found = []
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module in ("re", "regex", "fnmatch"):
                found.append(f"{module.file}:{node.lineno}: from {node.module}")
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name in ("regex", "re2", "fnmatch") or (alias.name == "re" and alias.asname):
                        found.append(f"{module.file}:{node.lineno}: import {alias.name}")
    return found


def find_sites(modules: list[Module]) -> list[Site]:
    """The sites of the modules; one that could not be read has no patterns."""
    return [site for module in modules for site in _sites_of(module, modules)]


def with_recorded(sites: list[Site], recorded: dict[str, list[tuple[str | bytes, int]]]) -> list[Site]:
    """The sites, and for those that could not be read what they compiled while the package was imported."""
    return [site if site.patterns else site._replace(patterns=tuple(recorded.get(site.place, ()))) for site in sites]


def compiled_on_import(root: Path, package: str) -> dict[str, list[tuple[str | bytes, int]]]:
    """What each place of the source compiles while every module of the package is imported, in a process of its own."""
    names = [module.name for module in read_modules(root, package) if not module.name.endswith("__main__")]
    script = Path(__file__).with_name("record_patterns.py")
    out = subprocess.run([sys.executable, str(script), str(root), *names], capture_output=True, text=True, check=True)
    return {
        place: [(text if kind == "str" else text.encode("latin-1"), flags) for kind, text, flags in patterns]
        for place, patterns in json.loads(out.stdout).items()
    }


def _sites_of(module: Module, modules: list[Module]) -> Iterator[Site]:
    parents = {child: node for node in ast.walk(module.tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(module.tree):
        function = _function_of_re(node)
        if function is None or not isinstance(node, ast.Call):
            continue
        uses = frozenset({USES[function]}) if function in USES else _uses_of_compiled(node, parents, module, modules)
        pattern = _evaluated(node, function, module)
        yield Site(module.file, node.lineno, uses, () if pattern is None else (pattern,))


def _function_of_re(node: ast.AST) -> str | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_name(node.func.value, "re"):
        return node.func.attr if node.func.attr in _FUNCTIONS else None
    return None


def _is_name(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _evaluated(call: ast.Call, function: str, module: Module) -> tuple[str | bytes, int] | None:
    """The pattern and its flags, or None where they depend on more than the module's constants."""
    position = {"compile": 1, "match": 2, "fullmatch": 2, "search": 2, "findall": 2, "finditer": 2}.get(function)
    given = [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
    if position is not None:
        given += call.args[position : position + 1]
    names = vars(importlib.import_module(module.name))
    try:
        pattern, *flags = [
            eval(compile(ast.Expression(node), module.file, "eval"), dict(names))  # the package's own source
            for node in (call.args[0], *given)
        ]
    except NameError:
        return None
    return pattern, int(flags[0]) if flags else 0


def _uses_of_compiled(
    call: ast.Call, parents: dict[ast.AST, ast.AST], module: Module, modules: list[Module]
) -> frozenset[str]:
    parent = parents[call]
    if isinstance(parent, ast.Attribute):  # re.compile(…).fullmatch
        return frozenset({USES[parent.attr]}) if parent.attr in USES else EVERY_USE
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        target: ast.AST = parent.targets[0]
    elif isinstance(parent, ast.AnnAssign):
        target = parent.target
    else:
        return EVERY_USE
    if not isinstance(target, ast.Name):
        return EVERY_USE
    return _uses_of_name(target.id, module, modules) or EVERY_USE


def _uses_of_name(name: str, module: Module, modules: list[Module]) -> frozenset[str]:
    uses: set[str] = set()
    readers = [module] if name.startswith("_") else [other for other in modules if _mentions(other, name)]
    for reader in readers:
        parents = {child: node for node in ast.walk(reader.tree) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(reader.tree):
            if _is_name(node, name) and isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
                uses |= _use(node, parents)
    return frozenset(uses)


def _mentions(module: Module, name: str) -> bool:
    return any(_is_name(node, name) for node in ast.walk(module.tree))


def _use(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> frozenset[str]:
    attribute = parents[node]
    if not isinstance(attribute, ast.Attribute):
        return EVERY_USE
    if attribute.attr in _HARMLESS:
        return frozenset()
    if attribute.attr not in USES:
        return EVERY_USE
    use = USES[attribute.attr]
    call = parents[attribute]
    from_a_place = isinstance(call, ast.Call) and call.func is attribute and len(call.args) > 1
    handed_on = not (isinstance(call, ast.Call) and call.func is attribute)
    if use == "match" and (from_a_place or handed_on):
        return frozenset({"match", "tokens"})  # token after token: what counts is the sum
    return frozenset({use})
