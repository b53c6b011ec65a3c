# Everything runs in ./.venv, made from constraints.txt; nothing but Python 3.11 (and make) need be installed.
# Settings: PYTHON, HOST, PORT (endpoint of `make run`), SAMPLE_PORT (its HTTP sample backend), JOBS (test processes),
# E2E_JOBS (those of `make e2e`).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	if command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)
HOST ?= 127.0.0.1
PORT ?= 8000
SAMPLE_PORT ?= 8001
JOBS ?= auto
TESTS ?= tests
E2E_JOBS ?= 3
E2E_TESTS ?= tests/e2e

VENV := .venv
BIN := $(VENV)/bin
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help run setup test e2e e2e-down lint crds crds-check chart chart-check clean

help: ## what there is to make
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# A stamp is as new as the files that decide what is installed: a second run installs nothing.
$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then echo 'No Python 3.11 or later found. Install one, or say where it is: make PYTHON=/path/to/python3.11' >&2; exit 1; fi
	@$(PYTHON) -m venv $(VENV) || { echo 'Could not create $(VENV). On Debian and Ubuntu: apt-get install python3-venv' >&2; rm -rf $(VENV); exit 1; }

$(VENV)/.run-installed: $(BIN)/python pyproject.toml constraints.txt
	@echo 'Installing mcp-connections into $(VENV) …'
	@$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev-installed: $(BIN)/python pyproject.toml constraints.txt
	@echo 'Installing mcp-connections and its test tools into $(VENV) …'
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.run-installed

run: $(VENV)/.run-installed ## serve two sample backends at http://127.0.0.1:8000/mcp
	@exec $(BIN)/python examples/run.py --host $(HOST) --port $(PORT) --sample-port $(SAMPLE_PORT)

setup: $(VENV)/.dev-installed ## install everything the tests and the linters need

test: setup ## run all tests (TESTS=tests/cli for one folder, JOBS=1 for one process)
	@$(BIN)/python -m tests.cluster.binaries
	@$(BIN)/python -m tests.chart.programs
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(TESTS)

e2e: setup ## tests in a kind cluster made for them (KEEP=1 leaves it, CLUSTER=current uses yours)
	@$(BIN)/python -m tests.chart.programs helm4
	@$(BIN)/python -m tests.cluster.kind run $(BIN)/python -m pytest -n $(E2E_JOBS) --dist loadfile --no-loadscope-reorder $(E2E_TESTS)

e2e-down: setup ## remove the cluster that KEEP=1 left
	@$(BIN)/python -m tests.cluster.kind down

lint: setup ## style, types, module direction, generated files
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(MAKE) --no-print-directory crds-check chart-check

crds: setup ## write crds/ from the models, and the chart's copy
	@$(BIN)/mcp-connections crd --output crds
	@$(MAKE) --no-print-directory chart

crds-check: setup
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	$(BIN)/mcp-connections crd --output "$$fresh" >/dev/null; \
	diff -ru crds "$$fresh" || { echo 'crds/ does not match the models in controller/mcp_connections/api. Run: make crds' >&2; exit 1; }

chart: setup ## write what the chart has from other files: CRDs, values schema, README
	@$(BIN)/python charts/generate.py

chart-check: setup
	@$(BIN)/python charts/generate.py --check

clean: ## remove the environment and every cache
	@rm -rf $(VENV) .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
