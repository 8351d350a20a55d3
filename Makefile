# `make run` does the main job and `make test` passes the tests; each sets up all that it needs in .venv by itself.
# Needed beforehand: Python 3.11+ (PYTHON=... to choose), and Java 17+ for Spark.

VENV := .venv
BIN := $(VENV)/bin
JAVA := src/request_purgatory/pipeline/java.py

# A trace to import and replay beside the published workloads: make run TRACE=path
TRACE ?=
# Requests in each published workload.
REQUESTS ?= 1000000

.PHONY: run test lint types docs check clean help

run: $(VENV)/.installed ## the published workloads, and TRACE=path, through both designs, into one report
	$(BIN)/purgatory run --workload low high --requests $(REQUESTS) $(if $(TRACE),--trace "$(TRACE)")

test: $(VENV)/.installed-dev ## all tests
	$(BIN)/pytest $(ARGS)

lint: $(VENV)/.installed-dev ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev ## mypy --strict
	$(BIN)/mypy

docs: $(VENV)/.installed-docs ## the documentation, into build/docs; warnings are errors
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo "documentation: build/docs/index.html"

check: test lint types docs ## all of the above but run

# Before any work: without Java, neither Spark's part of the tests nor a run can do anything.
$(VENV)/.java: $(JAVA)
	@python="$$(tools/find_python.sh)" && "$$python" $(JAVA)
	@mkdir -p $(VENV) && touch $@

$(VENV)/.created: tools/find_python.sh | $(VENV)/.java
	python="$$(tools/find_python.sh)" && "$$python" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.installed: pyproject.toml $(VENV)/.created
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[spark]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev
	@touch $@

$(VENV)/.installed-docs: pyproject.toml $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs
	@touch $@

clean: ## all that make has made, but runs/
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 8
