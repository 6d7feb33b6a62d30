"""`manage.py penstock_worker`: `penstock worker` for this project, with all of its options."""

import os
import sys

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Runs the project's jobs. Options are those of `penstock worker`: --concurrency, --queue, --reload, …"

    def run_from_argv(self, argv: list[str]) -> None:
        # The worker takes the place of this process: signals reach it, and it may start processes of its own.
        command = [sys.executable, "-m", "penstock", "worker", "project.worker:app", *argv[2:]]
        os.execv(sys.executable, command)
