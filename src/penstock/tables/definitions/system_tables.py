"""The tables of a system by the system's name. It imports nothing: the registry of systems reads it at every start."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class SystemTables(NamedTuple):
    """The tables of a system: the module that defines them, the prefix of their names, and the environment
    variables that name single ones, by the parameter of `tables` that takes each.
    """

    module: str
    prefix: str = ""
    variables: Mapping[str, str] = _NONE
