"""Finding an app by its name: `module:app`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from penstock.errors import PenstockError
from penstock.jobs.app import App


def load_app(place: str) -> App:
    """The app that `module:attribute` names; modules of the current folder are found, as `python -m` would."""
    module_name, colon, attribute = place.partition(":")
    if not colon or not module_name or not attribute:
        raise PenstockError(f"{place!r} names no app: it is MODULE:APP, such as reports:app.")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise  # the module is there, and something that it imports is not
        raise PenstockError(f"There is no module {module_name} in {here} or among the installed packages.") from error
    app = getattr(found, attribute, None)
    if not isinstance(app, App):
        apps = sorted(name for name, value in vars(found).items() if isinstance(value, App))
        hint = f" It has: {', '.join(apps)}." if apps else ""
        raise PenstockError(f"{module_name} has no app named {attribute}.{hint}")
    return app
