"""Finding an app by its name: `module:app`."""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.jobs.app import App
from penstock.user_modules import named


def load_app(place: str) -> App:
    """The app that `module:attribute` names."""
    module, attribute, app = named(place, what="app", example="reports:app")
    if not isinstance(app, App):
        apps = sorted(name for name, value in vars(module).items() if isinstance(value, App))
        hint = f" It has: {', '.join(apps)}." if apps else ""
        raise PenstockError(f"{module.__name__} has no app named {attribute}.{hint}")
    return app
