# `make run` does the main job and `make test` passes the tests; each sets up all that it needs in .venv by itself.
# Needed beforehand: Python 3.11+ (PYTHON=... to choose), a C compiler for the core, and Java 17+ for Spark.

VENV := .venv
BIN := $(VENV)/bin
JAVA := src/request_purgatory/pipeline/java.py
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# What the compiled core is made of: when one of these changes, it is built again.
CORE := $(wildcard src/request_purgatory/*.py src/request_purgatory/*.p[xy][dx] src/request_purgatory/*.h \
	src/request_purgatory/timer/*.py src/request_purgatory/timer/*.pxd src/request_purgatory/aio/held.p* \
	src/request_purgatory/pipeline/driver.p*)
# "interpreted" goes without a C compiler; "compiled", as here, fails if it can't compile. See setup.py.
REQUEST_PURGATORY_BUILD ?= compiled
export REQUEST_PURGATORY_BUILD
# The package as it is where nothing was compiled.
INTERPRETED := build/interpreted
BENCH := runs/bench
CORE_TESTS := --ignore tests/pipeline --ignore tests/benchmarks --ignore tests/broker

# A trace to import and replay beside the published workloads: make run TRACE=path
TRACE ?=
# Requests in each published workload.
REQUESTS ?= 1000000

.PHONY: run test test-all test-interpreted sanitize bench bench-docs archive lint types docs check clean help

run: $(VENV)/.installed ## the published workloads, and TRACE=path, through both designs, into one report
	$(BIN)/purgatory run --workload low high --requests $(REQUESTS) $(if $(TRACE),--trace "$(TRACE)")

test: test-all test-interpreted ## all tests, and the core's once more on the interpreted build

test-all: $(VENV)/.installed-dev ## all tests on the build that is installed; ARGS=... for pytest
	REQUEST_PURGATORY_EXPECT=$(REQUEST_PURGATORY_BUILD) $(BIN)/pytest $(ARGS)

test-interpreted: $(VENV)/.installed-dev $(INTERPRETED)/.installed ## the core's tests on the interpreted build
	REQUEST_PURGATORY_EXPECT=interpreted PYTHONPATH=$(INTERPRETED) $(BIN)/pytest -q $(CORE_TESTS)

sanitize: $(VENV)/.installed-dev ## the core's tests on a build with C assertions and sanitizers (needs gcc)
	tools/sanitize.sh

bench: $(VENV)/.installed-dev ## all benchmarks against all peers, into one report (most of an hour); ARGS=--quick for a look
	@code=0; $(BIN)/python -m benchmarks --out $(BENCH) $(ARGS) || code=$$?; \
	$(BIN)/purgatory report --bench $(BENCH) --out $(BENCH)/report.html --force && exit $$code

bench-docs: $(VENV)/.installed-dev ## the last run's figures and pictures into docs/benchmarks.md
	$(BIN)/python -m benchmarks.page $(BENCH) --pictures

archive: $(VENV)/.installed ## what the machines of a Spark cluster need, into dist/purgatory.tar.gz
	$(BIN)/purgatory archive dist/purgatory.tar.gz --force

lint: $(VENV)/.installed-dev ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev ## mypy --strict
	$(BIN)/mypy
	$(BIN)/mypy -p benchmarks

docs: $(VENV)/.installed-docs $(INTERPRETED)/.installed ## the documentation, into build/docs; warnings are errors
	PYTHONPATH=$(INTERPRETED) $(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo "documentation: build/docs/index.html"

check: test lint types docs ## all of the above but run

# Before any work: without Java, neither Spark's part of the tests nor a run can do anything.
$(VENV)/.java: $(JAVA)
	@python="$$(tools/find_python.sh)" && "$$python" $(JAVA)
	@mkdir -p $(VENV) && touch $@

$(VENV)/.created: tools/find_python.sh tools/check_compiler.sh | $(VENV)/.java
	python="$$(tools/find_python.sh)" && \
		{ test "$(REQUEST_PURGATORY_BUILD)" = interpreted || tools/check_compiler.sh "$$python"; } && \
		"$$python" -m venv $(VENV)
	$(PIP) install --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.installed: pyproject.toml setup.py $(CORE) $(VENV)/.created
	@echo "installing request-purgatory, with its core $(REQUEST_PURGATORY_BUILD)"
	@find src -name '*.so' -delete
	$(PIP) install --editable '.[spark,broker]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/.installed
	$(PIP) install --group dev
	@touch $@

$(VENV)/.installed-docs: pyproject.toml $(VENV)/.installed
	$(PIP) install --group docs
	@touch $@

$(INTERPRETED)/.installed: pyproject.toml setup.py $(VENV)/.created $(shell find src -name '*.py' -o -name '*.html')
	rm -rf $(INTERPRETED) build/lib
	REQUEST_PURGATORY_BUILD=interpreted $(PIP) install --no-deps --target $(INTERPRETED) .
	@touch $@

clean: ## all that make has made, but runs/
	find src -name '*.so' -delete
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 8
