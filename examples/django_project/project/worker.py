"""What a worker loads: Django, and the `tasks` module of every app in INSTALLED_APPS.

python manage.py penstock_worker --concurrency 4         which is: penstock worker project.worker:app --concurrency 4
"""

import os

import django
from django.utils.module_loading import autodiscover_modules

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django.setup()

from project.jobs import app  # noqa: E402 - it reads the settings

autodiscover_modules("tasks")

__all__ = ["app"]
