"""What the web servers share: the guard before every request, problems as answers, and an application on a port.

api/         the kit of the HTTP APIs: FastAPI with our errors, limits and an offline reference page
jobs_api.py  the HTTP API of jobs
dashboard/   the pages of `penstock up`
"""
