"""A small project: SQLite for Django's own tables, PENSTOCK_DB for the jobs."""

import os
from pathlib import Path

BASE_DIR = Path(__file__).parent.parent
SECRET_KEY = os.environ.get("DJANGO_SECRET_KEY", "for development only")
DEBUG = True
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "testserver"]
ROOT_URLCONF = "project.urls"
INSTALLED_APPS = ["project", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "shop.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

PENSTOCK_DB = os.environ.get("PENSTOCK_DB", str(BASE_DIR / "jobs.db"))  # or "aws://eu-west-2"
