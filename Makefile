# Beadline's commands. `make` alone lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PYFLINK_VENV := .venv-pyflink
PYFLINK_INSTALLED := $(PYFLINK_VENV)/.installed
DOCS_VENV := .venv-docs
DOCS_INSTALLED := $(DOCS_VENV)/.installed
LOCK_VENV := .venv-lock
# One file for all Pythons and systems, with the hashes of all their wheels.
LOCK := --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header

export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The first Python from 3.11 up to 3.$(1) that can make a virtual environment.
find_python = $(shell for p in python3 python3.13 python3.12 python3.11; do \
	if "$$p" -c 'import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, $(1)))' \
	>/dev/null 2>&1; then echo "$$p"; break; fi; done)

# Choose another one with `make clean test PYTHON=/path/to/python`.
PYTHON ?= $(call find_python,13)
# PyFlink 2.3 has no support for Python 3.13.
PYFLINK_PYTHON ?= $(call find_python,12)

# $(call make_venv,directory,python,newest minor version): what is there and works is kept.
define make_venv
	@if $(1)/bin/python -m pip --version >/dev/null 2>&1; then exit 0; fi; \
	python="$(2)"; if [ -z "$$python" ]; then \
		echo "No Python 3.11 to 3.$(3) with venv was found: install one (Debian, Ubuntu: apt-get install python3 python3-venv)" \
			"or name it, as in: make test PYTHON=/path/to/python" >&2; exit 1; fi; \
	echo "==> $(1): $$("$$python" --version)"; \
	"$$python" -m venv --clear $(1)
endef

.PHONY: help
help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-16s %s\n", $$1, $$2}'

.PHONY: demo
demo: java $(INSTALLED) ## kill, stop, rescale and upgrade a job, and see that it counts right
	@$(BIN)/python -m beadline.cli.main playground

.PHONY: test
test: TESTS := not slow and not cluster
test: checks ## check style, types and imports, then run all tests but the slow ones

.PHONY: test-all
test-all: TESTS := not cluster
test-all: checks ## the same with the slow tests too, which kill servers and drivers: what continuous integration runs

.PHONY: checks
checks: java $(INSTALLED)
	@echo "==> ruff check";   $(BIN)/ruff check .
	@echo "==> ruff format";  $(BIN)/ruff format --check .
	@echo "==> mypy";         $(BIN)/mypy
	@echo "==> lint-imports"; $(BIN)/lint-imports
	@echo "==> pytest";       $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m "$(TESTS)" $(ARGS)

.PHONY: test-cluster
test-cluster: java $(INSTALLED) ## kill executors of a local cluster again and again (takes minutes)
	@$(BIN)/python -m pytest -q -m cluster $(ARGS)

.PHONY: services
services: java $(INSTALLED) ## start Kafka and PostgreSQL to try things with, until Ctrl-C
	@$(BIN)/python -m beadline.services

.PHONY: format
format: $(INSTALLED) ## let ruff format the code and repair what it can
	@$(BIN)/ruff check --fix-only . && $(BIN)/ruff format .

.PHONY: bench
bench: java $(INSTALLED) ## measure, and print the numbers
	@$(BIN)/python bench/run.py $(ARGS)

.PHONY: parity-expected
parity-expected: java $(PYFLINK_INSTALLED) ## record what PyFlink answers, for the parity tests
	@$(PYFLINK_VENV)/bin/python tests/parity/record.py $(ARGS)

.PHONY: docs
docs: $(DOCS_INSTALLED) ## build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict --quiet
	@echo "site/index.html"

.PHONY: reference
reference: $(INSTALLED) ## write the reference pages from the code
	@$(BIN)/python docs/_tools/reference.py

.PHONY: lock
lock: ## choose newer versions for requirements/*.txt, within what pyproject.toml allows
	$(call make_venv,$(LOCK_VENV),$(PYTHON),13)
	@$(LOCK_VENV)/bin/python -m pip install -q uv
	@$(LOCK_VENV)/bin/uv pip compile $(LOCK) --extra dev pyproject.toml -o requirements/dev.txt
	@$(LOCK_VENV)/bin/uv pip compile $(LOCK) --group docs -o requirements/docs.txt

.PHONY: clean
clean: ## remove the virtual environments, caches and build results
	@rm -rf $(VENV) $(PYFLINK_VENV) $(DOCS_VENV) $(LOCK_VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
		spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

.PHONY: java
java:
	@.ci/require-java

$(INSTALLED): pyproject.toml requirements/dev.txt
	$(call make_venv,$(VENV),$(PYTHON),13)
	@echo "==> installing Beadline and its tools (PySpark alone is some 450 MB: the first time takes a few minutes)"
	@$(BIN)/python -m pip install -q --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .
	-@$(BIN)/beadline prepare
	@touch $@

$(DOCS_INSTALLED): requirements/docs.txt
	$(call make_venv,$(DOCS_VENV),$(PYTHON),13)
	@$(DOCS_VENV)/bin/python -m pip install -q --require-hashes -r requirements/docs.txt
	@touch $@

$(PYFLINK_INSTALLED): Makefile
	$(call make_venv,$(PYFLINK_VENV),$(PYFLINK_PYTHON),12)
	@echo "==> installing PyFlink (some 500 MB: takes a few minutes)"
	@$(PYFLINK_VENV)/bin/python -m pip install -q 'setuptools<81' wheel
	@$(PYFLINK_VENV)/bin/python -m pip install -q apache-flink==2.3.0
	@touch $@
