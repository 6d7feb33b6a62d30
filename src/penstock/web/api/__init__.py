"""The kit of the HTTP APIs. An API itself lives with its system, as `http.py`.

application  make_api: a router of FastAPI becomes an application with our guard, errors, /health and /docs
validation   the base of request bodies; what pydantic refuses, in our words
reference    GET /docs: the OpenAPI document as one page that loads nothing from elsewhere
"""

from penstock.extras import require

require("fastapi", "jinja2", "uvicorn", "multipart", extra="web", what="The HTTP API")
