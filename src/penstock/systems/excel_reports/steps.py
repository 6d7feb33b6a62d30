"""The steps of a report, and how far it is at each (S0.13)."""

from __future__ import annotations

from typing import Final

STEPS: Final = {
    "starting": 10,
    "initializing": 15,
    "fetching-products": 25,
    "fetching-users": 35,
    "generating-excel": 50,
    "downloading-images": 50,
    "uploading": 85,
    "finalizing": 95,
    "completed": 100,
}
"""In their order. Images bring it from 50 to 80, one batch after the other."""

IMAGES_END: Final = 80
FIRST_STEP: Final = "initializing"
"""What a job's main record says before anything has been done."""

_PLACES: Final = {name: place for place, name in enumerate(STEPS, start=1)}


def place_of(step: str, before: int) -> int:
    """The number of a step; one that is not ours leaves it as it was before."""
    return _PLACES.get(step, before)
