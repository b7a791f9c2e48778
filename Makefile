# The verbs of this project; .ci/run calls the same ones.
#
# The first verb on a fresh machine makes .venv from requirements-dev.lock (every file checked by its
# hash) and installs the package into it, editable. Later ones do so again only after the lock changed.

VENV := .venv
BIN := $(VENV)/bin
LOCKED := $(VENV)/.locked
INSTALLED := $(VENV)/.installed

# A python of at least 3.11 on PATH; `make PYTHON=/path/to/python …` names another.
PYTHON ?= $(shell for candidate in python3 python3.13 python3.12 python3.11 python; do \
	if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then command -v $$candidate; break; fi; done)

# Further arguments of pytest, e.g. `make test TESTFLAGS="-k lanes -x"`.
TESTFLAGS ?=

.PHONY: help demo test lint conformance bench venv lock clean

help:
	@echo "make demo         a real fleet of worker processes tells its story"
	@echo "make test         every test, with the servers that they need"
	@echo "make lint         ruff, mypy --strict, the layers between modules"
	@echo "make conformance  fixtures and vectors, through this library and its peers"
	@echo "make bench        what it costs"
	@echo "make venv         only make .venv"
	@echo "make lock         resolve requirements-dev.lock again"

demo: $(INSTALLED)
	$(BIN)/python -m dramatiq_handshake demo

test: $(INSTALLED)
	$(BIN)/python -m pytest $(TESTFLAGS)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

conformance: $(INSTALLED)
	$(BIN)/python conformance/check.py conformance/vectors
	$(BIN)/python -m conformance.peers

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks

venv: $(INSTALLED)

$(LOCKED): requirements-dev.lock
	@test -n "$(PYTHON)" || { echo "dramatiq-handshake needs Python 3.11 or newer on PATH: install it, or name it with make PYTHON=/path/to/python" >&2; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV) || { echo "$(PYTHON) could not make a virtual environment: install its venv module (Debian: apt-get install python3-venv)" >&2; rm -rf $(VENV); exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

# hatchling comes from the lock, so that building fetches nothing that the lock does not name.
$(INSTALLED): $(LOCKED) pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# One lock for Python 3.11 and up on every platform; uv stays out of the environment that it resolves.
lock:
	@test -n "$(PYTHON)" || { echo "needs Python 3.11 or newer on PATH" >&2; exit 1; }
	test -x .cache/uv/bin/uv || { "$(PYTHON)" -m venv .cache/uv && .cache/uv/bin/pip install --quiet --disable-pip-version-check uv; }
	.cache/uv/bin/uv pip compile pyproject.toml --group dev --extra otlp --extra rabbitmq --extra embedded --extra cli --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --quiet --output-file requirements-dev.lock

clean:
	rm -rf $(VENV) .cache .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
