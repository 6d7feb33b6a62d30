"""Reads Prometheus' text by its own rules (exposition format 0.0.4), and refuses what a scraper would."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
KINDS = {"counter", "gauge", "histogram", "summary", "untyped"}
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count")}
Key = tuple[tuple[str, str], ...]


@dataclass
class Family:
    name: str
    kind: str
    help: str
    samples: dict[tuple[str, Key], float] = field(default_factory=dict)


def parse(text: str) -> dict[str, Family]:
    assert text.endswith("\n")
    families: dict[str, Family] = {}
    help_of: dict[str, str] = {}
    current: Family | None = None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            _, _, name, about = line.split(" ", 3)
            assert NAME.fullmatch(name) and name not in help_of
            help_of[name] = unescape(about, quotes=False)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind in KINDS and name not in families, f"{name} twice: a family's lines stand together"
            current = families[name] = Family(name, kind, help_of[name])
        else:
            name, labels, value = sample(line)
            assert current is not None
            allowed = {current.name + suffix for suffix in SUFFIXES.get(current.kind, ("",))}
            assert name in allowed, f"{name} stands under {current.name}"
            assert (name, labels) not in current.samples, "a series twice"
            current.samples[name, labels] = value
    for family in families.values():
        check(family)
    return families


def sample(line: str) -> tuple[str, Key, float]:
    name = NAME.match(line)
    assert name is not None, line
    rest, labels = line[name.end() :], []
    if rest.startswith("{"):
        rest = rest[1:]
        while not rest.startswith("}"):
            label = LABEL.match(rest)
            assert label is not None and rest[label.end() : label.end() + 2] == '="', line
            value = re.match(r'(?:[^"\\]|\\[\\n"])*', rest[label.end() + 2 :])
            assert value is not None
            labels.append((label[0], unescape(value[0], quotes=True)))
            rest = rest[label.end() + 2 + value.end() :]
            assert rest.startswith('"')
            rest = rest[1:].removeprefix(",")
        rest = rest[1:]
    assert rest.startswith(" ") and " " not in rest[1:], line
    return name[0], tuple(labels), {"+Inf": math.inf, "-Inf": -math.inf}.get(rest[1:]) or float(rest[1:])


def unescape(text: str, *, quotes: bool) -> str:
    found = {"\\\\": "\\", "\\n": "\n", **({'\\"': '"'} if quotes else {})}
    return re.sub(r"\\.", lambda match: found[match[0]], text)


def check(family: Family) -> None:
    if family.kind == "counter":
        assert family.name.endswith("_total") and all(value >= 0 for value in family.samples.values())
    if family.kind != "histogram":
        return
    series: dict[Key, list[tuple[float, float]]] = {}
    for (name, labels), value in family.samples.items():
        if name.endswith("_bucket"):
            *own, (last, bound) = labels
            assert last == "le"
            series.setdefault(tuple(own), []).append((math.inf if bound == "+Inf" else float(bound), value))
    for own, buckets in series.items():
        bounds, counts = zip(*buckets, strict=True)
        assert list(bounds) == sorted(bounds) and bounds[-1] == math.inf
        assert list(counts) == sorted(counts), "buckets are cumulative"
        assert counts[-1] == family.samples[f"{family.name}_count", own]
        assert (f"{family.name}_sum", own) in family.samples
