"""A migration is a Python file with a number: `migrations/0003_split_name.py`.

    table = "users"                            the table, without prefix and environment
    where = F("name").exists()                 which items: a condition, or a function of the item; without it, all
    version = "schema"                         an attribute that says an item is done, if `up` is not idempotent
    guard = "revision"                         an attribute that every writer changes, for items of > 150 attributes

    def up(item): …                            the item in its new shape
    def down(item): …                          the way back, if there is one
    down_where = …                             which items `down` is for

1. Numbers give the order, and no two files have the same. A file is known by its whole name.
2. A file is executed once for each command, and is never imported under a name: two folders do not meet.
3. The checksum is of the file's text; line ends do not count.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from importlib.abc import InspectLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from penstock.client.items.expressions import Condition
from penstock.client.items.values import Item
from penstock.errors import PenstockError

DEFAULT_FOLDER: Final = "migrations"
MOST_FILES: Final = 9_999
_NAME: Final = re.compile(r"(\d{1,4})_([A-Za-z0-9_]+)\.py")
_KNOWN: Final = ("table", "where", "version", "guard", "up", "down", "down_where")

Function = Callable[[Item], Any]
Where = Condition | Callable[[Item], Any] | None


class BadMigration(PenstockError):
    """A migration's file, or the folder of them, is wrong: the message names the file and the member."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file. `table` is without prefix and environment."""

    path: Path
    number: int
    table: str
    up: Function
    checksum: str
    where: Where = None
    version: str | None = None
    guard: str | None = None
    down: Function | None = None
    down_where: Where = None

    @property
    def id(self) -> str:
        """`0003_split_name`."""
        return self.path.stem


def load_folder(folder: Path) -> tuple[Migration, ...]:
    """The migrations of a folder, in their order (1). Raises BadMigration."""
    if not folder.is_dir():
        raise BadMigration(f"There is no folder {folder}. `penstock tables migrate new NAME --table TABLE` makes it.")
    paths = sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))
    for path in paths:
        if _NAME.fullmatch(path.name) is None:
            raise BadMigration(f"{path}: a migration is named NUMBER_what_it_does.py, such as 0003_split_name.py.")
    by_number: dict[int, Path] = {}
    for path in paths:
        number = _number(path)
        if number in by_number:
            raise BadMigration(
                f"{path} and {by_number[number].name} have the same number. Give one of them the next: "
                "whichever has not been applied anywhere."
            )
        by_number[number] = path
    return tuple(load_file(path) for _, path in sorted(by_number.items()))


def _number(path: Path) -> int:
    return int(path.name.partition("_")[0])


def load_file(path: Path) -> Migration:
    """One migration, executed and checked."""
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadMigration(f"{path} cannot be read: {error}.") from error
    members = _execute(path, text)
    table = members.get("table")
    if not isinstance(table, str) or not table:
        raise BadMigration(f'{path}: it names no table. Write table = "users", without prefix and environment.')
    _refuse_misspelt(path, members)
    up = members.get("up")
    if not callable(up):
        raise BadMigration(
            f"{path}: it has no function up(item). It is given an item, and returns it in its new shape."
        )
    return Migration(
        path,
        _number(path),
        table,
        up,
        checksum(text),
        _where(path, members, "where"),
        _attribute(path, members, "version"),
        _attribute(path, members, "guard"),
        _down(path, members),
        _where(path, members, "down_where"),
    )


def checksum(text: str) -> str:
    return sha256(text.replace("\r\n", "\n").encode()).hexdigest()[:16]


class _TextLoader(InspectLoader):
    """Executes the text whose checksum was taken, and caches nothing beside the user's file."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text

    def get_source(self, fullname: str) -> str:
        return self.text

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.text, str(self.path))


def _execute(path: Path, text: str) -> dict[str, Any]:
    module = ModuleType(f"penstock_migration_{path.stem}")
    module.__file__ = str(path)
    here = str(Path.cwd())
    if here not in sys.path:  # a migration may use the program's own modules
        sys.path.insert(0, here)
    try:
        _TextLoader(path, text).exec_module(module)
    except SystemExit as error:
        raise BadMigration(f"{path} calls sys.exit({error.code!r}) when it is loaded.") from error
    except SyntaxError as error:
        raise BadMigration(f"{path}, line {error.lineno}: {error.msg}.") from error
    except Exception as error:
        line = next(
            (one.lineno for one in reversed(traceback.extract_tb(error.__traceback__)) if one.filename == str(path)), 0
        )
        raise BadMigration(f"{path}, line {line}: {type(error).__name__}: {error}") from error
    return module.__dict__


def _refuse_misspelt(path: Path, members: dict[str, Any]) -> None:
    """`When = …` would be a migration of every item: a name that is near one of ours is refused."""
    for name in members:
        if name.lower() in _KNOWN and name not in _KNOWN:
            raise BadMigration(f"{path}: {name} is written {name.lower()}.")


def _where(path: Path, members: dict[str, Any], name: str) -> Where:
    where: Where = members.get(name)
    if where is None or isinstance(where, Condition) or callable(where):
        return where
    raise BadMigration(
        f'{path}: {name} is a condition, such as F("name").exists(), or a function of the item; not {where!r}.'
    )


def _attribute(path: Path, members: dict[str, Any], name: str) -> str | None:
    attribute: str | None = members.get(name)
    if attribute is None or (isinstance(attribute, str) and attribute):
        return attribute
    raise BadMigration(f"{path}: {name} is the name of an attribute, not {attribute!r}.")


def _down(path: Path, members: dict[str, Any]) -> Function | None:
    down: Function | None = members.get("down")
    if down is None or callable(down):
        return down
    raise BadMigration(f"{path}: down is a function of the item, not {down!r}.")


def find(migrations: Iterable[Migration], wanted: str) -> Migration:
    """By its number (`3`, `0003`) or its whole name."""
    known = tuple(migrations)
    for one in known:
        if wanted == one.id or (wanted.isdigit() and int(wanted) == one.number):
            return one
    names = ", ".join(one.id for one in known[-5:]) or "none"
    raise BadMigration(f"There is no migration {wanted}. The last ones are: {names}.")


# ── a new file ───────────────────────────────────────────────────────────────────────────────────

_TEMPLATE: Final = '''\
"""{title}."""

from penstock import F

table = {table!r}

# Which items are of the old shape: a condition, or a function of the item. Without it, every item is given to up.
where = F("name").exists()


def up(item):
    """The item in its new shape. An item that has it already comes back as it is; DELETE deletes it."""
    item["full_name"] = item.pop("name")
    return item


def down(item):
    """The way back; leave it out if there is none."""
    if "full_name" in item:
        item["name"] = item.pop("full_name")
    return item
'''


def write_new(folder: Path, name: str, table: str) -> Path:
    """Writes a file with the next number; where it is."""
    stem = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    if not stem:
        raise BadMigration(f"{name!r}: a migration is named with letters and digits, such as split_name.")
    folder.mkdir(parents=True, exist_ok=True)
    numbers = [_number(path) for path in folder.glob("*.py") if _NAME.fullmatch(path.name)]
    number = max(numbers, default=0) + 1
    if number > MOST_FILES:
        raise BadMigration(f"{folder} has {MOST_FILES:,} migrations: begin another folder.")
    path = folder / f"{number:04d}_{stem}.py"
    title = stem.replace("_", " ").capitalize()
    with path.open("x", encoding="utf-8") as file:
        file.write(_TEMPLATE.format(title=title, table=table))
    return path
