"""Drawings with known truth are drawn by `bench`, which is no part of the package: it is at the repository's root."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
