"""botocore's data files (services, endpoints, rules), read into plain dicts.

botocore reads them into OrderedDicts, which take 4 MB more for a client of S3 and a fifth more time. A dict keeps the
order too.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

_OPENERS = ((".json", open), (".json.gz", gzip.open))


class PlainData:
    """What a botocore Loader wants as its `file_loader`; paths are without their ending."""

    def exists(self, file_path: str) -> bool:
        return any(Path(file_path + ending).is_file() for ending, _ in _OPENERS)

    def load_file(self, file_path: str) -> Any:
        """None if there is no such file."""
        for ending, opened in _OPENERS:
            try:
                with opened(file_path + ending, "rb") as file:
                    return json.loads(file.read())
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                continue
        return None
