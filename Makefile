# SPDX-License-Identifier: Apache-2.0
# Every target installs what it needs, does nothing twice, and touches only this folder (and, by apt, missing packages).
# Needs git, make and Python 3.11 or later.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PYTEST_ARGS ?=
# Most tests wait for servers. A file stays in one process, with the servers that its tests share.
PYTEST_PROCESSES ?= -n 2 --dist loadfile
# The stories start dozens of processes: each would compile all modules where PYTHONDONTWRITEBYTECODE is set.
COMPILE = $(BIN)/python -m compileall -q perdure workflows activities client tests worker.py

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help
help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: host $(INSTALLED) ## Play the whole story with real parts, and leave the stack up to look at
	@$(COMPILE)
	@$(BIN)/python -m demo.story

.PHONY: down
down: ## Stop and remove all that `make demo` made
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m demo.down; else echo "nothing to remove: make demo never ran here"; fi

.PHONY: check
check: $(INSTALLED) ## Style, types, import rules and the built wheel
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest tests/architecture

.PHONY: test
test: test-host $(INSTALLED) ## All tests; PYTEST_ARGS="-k pull" for some
	@$(COMPILE)
	$(BIN)/pytest $(PYTEST_PROCESSES) $(PYTEST_ARGS)

.PHONY: bench
bench: host $(INSTALLED) ## Measure beside plain Podman in the same run; BENCH_ARGS="--quick" for fewer rounds
	@$(COMPILE)
	@$(BIN)/python -m bench $(BENCH_ARGS)

.PHONY: bench-peers
bench-peers: host $(INSTALLED) ## The same beside Docker and Docker Swarm too; installs docker.io where it is missing
	@PYTHON="$(PYTHON)" deploy/install-host.sh peers || echo "note: measuring without Docker" >&2
	@$(COMPILE)
	@$(BIN)/python -m bench --peers $(BENCH_ARGS)

.PHONY: format
format: $(INSTALLED) ## Format, and mend what can be mended by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: docs
docs: $(INSTALLED) ## Write the reference pages and the JSON Schema anew, from the code
	$(BIN)/python -m schema.generate
	$(BIN)/python -m docs.reference.generate_cli
	$(BIN)/python -c 'from perdure.model.catalogue import as_markdown; print(as_markdown(), end="")' >docs/reference/faults.md

.PHONY: setup
setup: test-host $(INSTALLED) ## Install what the other targets need, and stop there

.PHONY: host test-host
host:
	@PYTHON="$(PYTHON)" deploy/install-host.sh demo
test-host:
	@PYTHON="$(PYTHON)" deploy/install-host.sh test

.PHONY: lock
lock: $(INSTALLED) ## Pin the dependencies of pyproject.toml anew, with hashes
	$(LOCK) pyproject.toml --output-file requirements.txt
	$(LOCK) --group build --output-file requirements-build.txt
	$(LOCK) pyproject.toml --group dev --constraints requirements.txt --output-file requirements-dev.txt

LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock" $(LOCK_ARGS)

.PHONY: clean
clean: down ## Remove all that was made in this folder
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .bench
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): requirements-dev.txt pyproject.toml
	@PYTHON="$(PYTHON)" deploy/install-host.sh python
	[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --require-hashes --requirement requirements-dev.txt
	$(BIN)/python -m pip install -qq --no-deps --no-build-isolation --editable .
	@touch $@
