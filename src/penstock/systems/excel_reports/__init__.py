"""Excel report jobs: a job and its numbered progress."""
