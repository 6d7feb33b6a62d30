"""What goes from step to step: JSON values and files, each with its hash.

1. Equal values have equal hashes, in whatever order their keys are; 1, 1.0 and true are three values.
2. What a step is given is what was stored, also when its maker ran just before: a resumed run sees the same.
3. A file is read against the hash that was taken when it was saved.
4. Files of two attempts have two names: one whose lease is lost cannot write over what the next one has saved, and what
   a checkpoint names stays as it is until another one takes its place.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.files import BadKey, FileChanged, FileMissing, Files, SavedFile
from penstock.files.content import BLOCK_BYTES, hash_of
from penstock.files.file_store import READ_BYTES
from penstock.jobs.model.json_text import NotJson, from_json, to_json

_BYTES: Final = (bytes, bytearray, memoryview)
_ATTEMPT: Final = re.compile(r"~\d+(\.[^./]*)?$")


@dataclass(frozen=True, slots=True)
class PipelineFile:
    """A file of the job. Other bytes than those that were saved are refused while it is read."""

    saved: SavedFile
    files: Files

    def open(self) -> io.BufferedReader:
        """A stream of its bytes; raises FileMissing, and FileChanged before the last byte."""
        return self.files.open(self.saved.key, expect=self.saved)

    def read(self, *, limit: int = READ_BYTES) -> bytes:
        """All of a small file; raises FileTooLarge above `limit` bytes."""
        return self.files.read(self.saved.key, limit=limit, expect=self.saved)

    def check(self) -> None:
        """Reads all of it: raises FileMissing or FileChanged unless it is what was saved."""
        with self.open() as stream:
            while stream.read(BLOCK_BYTES):
                pass

    @property
    def key(self) -> str:
        """Where it lies in the job's files."""
        return self.saved.key

    @property
    def size(self) -> int:
        """In bytes."""
        return self.saved.size

    @property
    def sha256(self) -> str:
        """Of its bytes, as hexadecimal digits."""
        return self.saved.sha256


@dataclass(frozen=True, slots=True)
class Product:
    """An input or an output: a value's JSON text, or a file."""

    text: str = ""
    file: SavedFile | None = None
    sha256: str = ""

    @classmethod
    def of(cls, value: object, path: str) -> Product:
        """Raises NotJson, with the path to what cannot be stored."""
        if isinstance(value, PipelineFile):
            return cls.of_file(value.saved)
        if isinstance(value, SavedFile):
            return cls.of_file(value)
        if isinstance(value, _BYTES):
            raise NotJson(path, f"is {type(value).__name__}: return context.save(name, data), which is a file.")
        text = to_json(value, path)
        return cls(text=text, sha256=value_hash(text))

    @classmethod
    def of_file(cls, saved: SavedFile) -> Product:
        return cls(file=saved, sha256=saved.sha256)

    @classmethod
    def parse(cls, form: Mapping[str, Any]) -> Product:
        if "file" in form:
            return cls.of_file(SavedFile.parse(form["file"]))
        return cls.of(form["value"], "value")

    def form(self) -> dict[str, Any]:
        """As it stands in a checkpoint."""
        return {"file": self.file.form()} if self.file is not None else {"value": from_json(self.text)}

    def step_value(self, files: Files | None) -> Any:
        """What a step gets: a value of its own to change as it likes, or the file."""
        if self.file is None:
            return from_json(self.text)
        if files is None:
            raise PenstockError(
                f'{self.file.key} is a file, and this store has no place for files: App(url, files="folder").'
            )
        return PipelineFile(self.file, files)

    def is_whole(self, files: Files | None) -> bool:
        """Whether it can be given: a file is there, and is what was saved."""
        if self.file is None:
            return True
        try:
            self.step_value(files).check()
        except (FileMissing, FileChanged):
            return False
        return True

    @property
    def size(self) -> int:
        return len(self.text.encode()) if self.file is None else self.file.size


def value_hash(text: str) -> str:
    """The SHA-256 of JSON, whatever the order of its keys (1)."""
    canonical = json.dumps(json.loads(text), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def name_in_attempt(name: str, attempt: int) -> str:
    """`words.txt`, then `words~2.txt` in the second attempt: no attempt writes over what another one has saved."""
    if _ATTEMPT.search(name):
        raise BadKey(f"name {name!r}", "it ends as those of later attempts do", "Leave out the '~' and the number")
    if attempt == 1:
        return name
    folder, slash, last = name.rpartition("/")
    stem, dot, ending = last.rpartition(".")
    return f"{folder}{slash}{stem}~{attempt}.{ending}" if dot else f"{folder}{slash}{last}~{attempt}"


def path_hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hash_of(stream)[0]
