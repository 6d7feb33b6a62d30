# One command for each habit. CONTRIBUTING.md says more of each.
.PHONY: help install test lint format docs bench trust build smoke ci

PYTHON ?= python3
BIN := .venv/bin

help:  ## list the commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1|\2/p' Makefile | column -t -s '|'

install: .venv  ## the environment for all that follows, in .venv
.venv: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -e '.[dev,docs]'
	@touch .venv

test: .venv  ## all tests, on as many processes as are good for two cores; make test ARGS='tests/jobs -x'
	$(BIN)/pytest -n 3 $(ARGS)

lint: .venv  ## what must pass before a commit: ruff, mypy, the layers of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv  ## fixes what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv  ## writes the generated pages, and the site in build/site
	$(BIN)/python docs/generate --site

bench: .venv  ## the benchmarks, small, in minutes; make bench ARGS='http jobs --save' measures those two
	$(BIN)/python -m bench $(or $(ARGS),--quick)

trust: .venv  ## lists the programs that try to break it, or runs one: make trust ARGS=soak
	$(BIN)/python -m trust $(ARGS)

build: .venv  ## wheel and source distribution, in dist
	$(BIN)/pip install --quiet build
	rm -rf dist
	$(BIN)/python -m build

smoke: build  ## installs the wheel into a new environment of PYTHON, and uses it
	$(PYTHON) tools/smoke.py dist/*.whl

ci:  ## what a merge must pass, on a clean clone
	.ci/run
