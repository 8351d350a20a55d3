# `make run` does the main job and `make test` passes the tests; each target sets up all that it needs in .venv by itself.
# Needed beforehand: Python 3.11+ (PYTHON=... to choose), a C compiler for the core, and for Spark's part Java 17+.

VENV := .venv
BIN := $(VENV)/bin
JAVA := packages/purgatory-spark/src/purgatory_spark/_spark/java.py
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

CORE_PACKAGE := packages/request-purgatory
COMMANDS_PACKAGE := packages/purgatory-command-line
BROKER_PACKAGE := packages/purgatory-broker
SPARK_PACKAGE := packages/purgatory-spark
# Exact versions to install, such as constraints.txt, which CI takes; none unless given: the newest that the packages allow.
CONSTRAINTS ?=
ifneq ($(CONSTRAINTS),)
export PIP_CONSTRAINT := $(abspath $(CONSTRAINTS))
# For PIP='uv pip', which reads no variable of pip's.
export UV_CONSTRAINT := $(PIP_CONSTRAINT)
endif

# What the compiled core is made of: when one of these changes, it is built again.
SOURCES := $(CORE_PACKAGE)/src/request_purgatory
CORE := $(wildcard $(SOURCES)/*.p[xy]* $(foreach folder,_native purgatory timer aio replay,\
	$(SOURCES)/$(folder)/*.p[xy]* $(SOURCES)/$(folder)/*.h))
# The modules of the broker that are compiled, as its setup.py names them.
BROKER_MODULES := $(shell sed -n 's/^    "\(.*\)",$$/\1/p' $(BROKER_PACKAGE)/setup.py)
BROKER_SOURCES := $(patsubst %,$(BROKER_PACKAGE)/src/purgatory_broker/%.py,$(subst .,/,$(BROKER_MODULES)))
# "interpreted" goes without a C compiler; "compiled", as here, fails if it can't compile. See setup.py.
REQUEST_PURGATORY_BUILD ?= compiled
export REQUEST_PURGATORY_BUILD
# The core and the broker as they are where nothing was compiled.
INTERPRETED := build/interpreted
BENCH := runs/bench

# Test processes side by side; the tests on Spark stay together in one of them.
WORKERS ?= 2
PYTEST = REQUEST_PURGATORY_EXPECT=$(REQUEST_PURGATORY_BUILD) $(BIN)/python -m pytest -c pyproject.toml --rootdir . -n $(WORKERS) --dist loadgroup
# The tiers; CONTRIBUTING.md has the table.
FAST := not jvm and not slow
CORE_TESTS := $(CORE_PACKAGE)/tests/unit $(CORE_PACKAGE)/tests/model
# What the interpreted build can't do otherwise than the compiled one is tested on the latter alone.
INTERPRETED_TESTS := $(CORE_TESTS) --ignore $(CORE_PACKAGE)/tests/unit/aio/test_cpython.py --ignore $(CORE_PACKAGE)/tests/unit/aio/test_examples.py \
	--ignore $(CORE_PACKAGE)/tests/unit/test_doctests.py --ignore $(CORE_PACKAGE)/tests/unit/test_leftovers.py
# The core's modules in the report of `make coverage`: neither the commands nor the fixtures for users.
CORE_FILES := --include '$(SOURCES)/*.py,$(SOURCES)/_native/*,$(SOURCES)/dashboard/*,$(SOURCES)/metrics/*,$(SOURCES)/purgatory/*,$(SOURCES)/timer/*'
# What `make explore` draws its examples from, below 2**32; the same number gives the same examples, in sets' order too.
# Assigned once: each use of a recursive variable would be another number.
ifndef SEED
SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
endif
# Seconds that one exploring test may take: an example that hangs is a finding, many examples are none.
LONGEST ?= 7200

# The soak: how long, how many processes side by side, and after how many ended operations it stops before its time.
MINUTES ?= 10
PROCESSES ?= 1
OPERATIONS ?=

# What `make release` releases.
VERSION ?= $(error VERSION=... says which version, such as 0.3.0)

# A trace to import and replay beside the published workloads: make run TRACE=path
TRACE ?=
# Requests in each published workload.
REQUESTS ?= 1000000

.PHONY: run test test-fast test-rest test-all test-core test-broker test-interpreted coverage mutants explore soak sanitize instructions bench bench-docs archive \
	lint types docs release check constraints clean help

run: $(VENV)/.packages ## the published workloads, and TRACE=path, through both designs, into one report
	$(BIN)/purgatory run --workload low high --requests $(REQUESTS) $(if $(TRACE),--trace "$(TRACE)")

test: test-fast test-interpreted ## the fast tier, and the core's tests on the interpreted build (about 8 minutes)

test-fast: $(VENV)/.test ## the fast tier on the build that is installed; ARGS=... for pytest
	$(PYTEST) -m "$(FAST)" $(ARGS)

test-rest: $(VENV)/.test ## the slower tiers: further JVMs, long runs; ARGS=... for pytest
	$(PYTEST) -m "not ($(FAST))" $(ARGS)

test-all: test test-rest ## all tests (about 45 minutes)

test-core: $(VENV)/.core ## the core's tests, with nothing of Java, Spark or kafka-python (under 3 minutes); ARGS=... for pytest
	$(PYTEST) -m "$(FAST)" $(CORE_TESTS) $(ARGS)

test-broker: $(VENV)/.broker ## the broker's tests, without Java and Spark; ARGS=... for pytest
	$(PYTEST) -m "$(FAST)" $(BROKER_PACKAGE)/tests $(ARGS)

test-interpreted: $(VENV)/.core $(INTERPRETED)/.copied ## the core's tests on the interpreted build
	HYPOTHESIS_PROFILE=interpreted REQUEST_PURGATORY_EXPECT=interpreted PYTHONPATH=$(INTERPRETED) \
		$(BIN)/python -m pytest -c pyproject.toml --rootdir . -q -n $(WORKERS) $(INTERPRETED_TESTS)

coverage: $(VENV)/.coverage $(INTERPRETED)/.copied ## branch coverage; fails if the core has less than 100 %
	$(BIN)/coverage erase
	@code=0; \
	REQUEST_PURGATORY_EXPECT=interpreted PYTHONPATH=$(INTERPRETED) SPARK_CONF_DIR=$(CURDIR)/tools/coverage \
		$(BIN)/coverage run -m pytest -c pyproject.toml --rootdir . -q -n $(WORKERS) --dist loadgroup -m "$(FAST)" $(ARGS) || code=$$?; \
	$(BIN)/coverage combine -q || exit 1; \
	echo "core:"; $(BIN)/coverage report $(CORE_FILES) --fail-under 100 || code=$$?; \
	for part in $(SOURCES)/aio $(COMMANDS_PACKAGE)/src $(BROKER_PACKAGE)/src $(SPARK_PACKAGE)/src; do \
		echo "$$part:"; $(BIN)/coverage report --include "$$part/*"; \
	done; \
	exit $$code

mutants: $(VENV)/.mutants $(INTERPRETED)/.copied ## one change at a time in the core's changed modules; fails if the tests pass all the same. ARGS=timer/wheel.py, or all
	HYPOTHESIS_PROFILE=mutants REQUEST_PURGATORY_EXPECT=interpreted PYTHONPATH=$(INTERPRETED) $(BIN)/python -m tools.mutants $(ARGS)

explore: $(VENV)/.test ## every model and property on new examples, 20 times as many; SEED=... repeats a run, ARGS=... one test
	@echo "seed $(SEED); the same examples again: make explore SEED=$(SEED)"
	PYTHONHASHSEED=$(SEED) HYPOTHESIS_PROFILE=explore $(PYTEST) -m explore --hypothesis-seed=$(SEED) --timeout $(LONGEST) $(ARGS)

soak: $(VENV)/.soak ## all operations at random, every end counted: MINUTES=10 OPERATIONS=... PROCESSES=1, SEED=... repeats the choices
	$(BIN)/python -m benchmarks.soak --seed $(SEED) --minutes $(MINUTES) --processes $(PROCESSES) \
		$(if $(OPERATIONS),--operations $(OPERATIONS)) $(ARGS)

sanitize: $(VENV)/.core ## the core's tests on builds with C assertions and sanitizers, which are tested too (needs gcc)
	tools/sanitize.sh

instructions: $(VENV)/.test ## count the core's instructions under valgrind; fails if a count grew by 3 %. ARGS=--record
	$(BIN)/python -m benchmarks.instructions $(ARGS)

bench: $(VENV)/.test ## all benchmarks against all peers, into one report (most of an hour); ARGS=--quick for a look
	@code=0; $(BIN)/python -m benchmarks --out $(BENCH) $(ARGS) || code=$$?; \
	$(BIN)/python -m benchmarks.report $(BENCH) $(BENCH)/report.html && exit $$code

bench-docs: $(VENV)/.test ## the last run's figures and pictures into docs/explanation/benchmarks.md
	$(BIN)/python -m benchmarks.page $(BENCH) --pictures

archive: $(VENV)/.packages ## what the machines of a Spark cluster need, into dist/purgatory.tar.gz
	$(BIN)/purgatory archive dist/purgatory.tar.gz --force

lint: $(VENV)/.lint ## ruff, import-linter's contracts on the layers, zizmor on the workflows, and the changelog's files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=$(CORE_PACKAGE)/src:$(COMMANDS_PACKAGE)/src:$(BROKER_PACKAGE)/src:$(SPARK_PACKAGE)/src $(BIN)/lint-imports --no-cache
	$(BIN)/zizmor --offline --quiet .github
	$(BIN)/towncrier build --draft --version next >/dev/null

types: $(VENV)/.types ## mypy --strict
	$(BIN)/mypy
	$(BIN)/mypy -p benchmarks
	$(BIN)/mypy --explicit-package-bases -p tools.protocol

docs: $(VENV)/.docs $(INTERPRETED)/.copied ## the documentation, into build/docs; warnings are errors
	@rm -rf docs/reference/generated build/docs
	PYTHONPATH=$(INTERPRETED) $(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs
	$(BIN)/python tools/check_site.py build/docs
	@echo "documentation: build/docs/index.html"

release: $(VENV)/.release ## commit, tag, changelog and files of a version, checked, not published: VERSION=0.3.0, ARGS=--dry-run
	$(BIN)/python tools/release.py $(VERSION) $(ARGS)

check: test lint types docs ## the fast tier, lint, types and documentation

# The environment, in layers: each target installs no more than it uses, and only what runs Spark asks for Java.

$(VENV)/.created: tools/find_python.sh
	python="$$(tools/find_python.sh)" && "$$python" -m venv $(VENV)
	$(PIP) install --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.built: $(CORE_PACKAGE)/pyproject.toml $(CORE_PACKAGE)/setup.py $(CORE) tools/check_compiler.sh | $(VENV)/.created
	@test "$(REQUEST_PURGATORY_BUILD)" = interpreted || tools/check_compiler.sh $(BIN)/python
	@echo "installing request-purgatory, with its core $(REQUEST_PURGATORY_BUILD)"
	@# Cython looks neither at compiler directives nor at every header of its own.
	@find $(CORE_PACKAGE)/src -name '*.so' -delete; rm -rf $(CORE_PACKAGE)/build/cython
	$(PIP) install --editable $(CORE_PACKAGE)
	@touch $@

# Before any download: without Java, neither a run nor Spark's part of the tests can do anything.
$(VENV)/.java: $(JAVA)
	@python="$$(tools/find_python.sh)" && "$$python" $(JAVA)
	@mkdir -p $(VENV) && touch $@

$(VENV)/.built-broker: $(COMMANDS_PACKAGE)/pyproject.toml $(BROKER_PACKAGE)/pyproject.toml $(BROKER_PACKAGE)/setup.py $(BROKER_SOURCES) | $(VENV)/.built
	@find $(BROKER_PACKAGE)/src -name '*.so' -delete; rm -rf $(BROKER_PACKAGE)/build/cython
	$(PIP) install --editable $(COMMANDS_PACKAGE) --editable '$(BROKER_PACKAGE)[cli]'
	@touch $@

$(VENV)/.packages: $(SPARK_PACKAGE)/pyproject.toml | $(VENV)/.java $(VENV)/.built-broker
	$(PIP) install --editable '$(SPARK_PACKAGE)[connect]'
	@touch $@

$(VENV)/.core: $(CORE_PACKAGE)/pyproject.toml | $(VENV)/.built
	$(PIP) install --group $(CORE_PACKAGE)/pyproject.toml:test
	@touch $@

$(VENV)/.broker: $(BROKER_PACKAGE)/pyproject.toml | $(VENV)/.built-broker
	$(PIP) install --group $(BROKER_PACKAGE)/pyproject.toml:test
	@touch $@

$(VENV)/.soak: pyproject.toml | $(VENV)/.built
	$(PIP) install --group soak
	@touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/.packages $(VENV)/.core $(VENV)/.broker
	$(PIP) install --group $(SPARK_PACKAGE)/pyproject.toml:test --group test
	@touch $@

$(VENV)/.coverage: pyproject.toml | $(VENV)/.test
	$(PIP) install --group coverage
	@touch $@

$(VENV)/.mutants: pyproject.toml | $(VENV)/.core
	$(PIP) install --group mutants --group soak
	@touch $@

$(VENV)/.lint: pyproject.toml | $(VENV)/.created
	$(PIP) install --group lint
	@touch $@

$(VENV)/.types: pyproject.toml | $(VENV)/.test
	$(PIP) install --group types
	@touch $@

$(VENV)/.release: pyproject.toml | $(VENV)/.packages
	$(PIP) install --group release
	@touch $@

$(VENV)/.docs: pyproject.toml | $(VENV)/.packages
	$(PIP) install --group docs
	@touch $@

$(INTERPRETED)/.copied: $(shell find $(CORE_PACKAGE)/src $(BROKER_PACKAGE)/src -name '*.py' -o -name '*.html' -o -name '*.css' -o -name '*.js' -o -name '*.pxd')
	rm -rf $(INTERPRETED) && mkdir -p $(INTERPRETED) && cp -r $(CORE_PACKAGE)/src/. $(BROKER_PACKAGE)/src/. $(INTERPRETED)
	find $(INTERPRETED) -name '*.so' -delete
	@touch $@

constraints: ## the newest versions of all that CI installs, into constraints.txt
	rm -rf build/constraints
	python="$$(tools/find_python.sh)" && "$$python" -m venv build/constraints
	build/constraints/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	REQUEST_PURGATORY_BUILD=interpreted PIP_CONSTRAINT= build/constraints/bin/python -m pip install --quiet \
		'setuptools>=77' --editable $(CORE_PACKAGE) --editable $(COMMANDS_PACKAGE) --editable '$(BROKER_PACKAGE)[cli]' --editable '$(SPARK_PACKAGE)[connect]' \
		$(foreach package,$(CORE_PACKAGE) $(COMMANDS_PACKAGE) $(BROKER_PACKAGE) $(SPARK_PACKAGE),--group $(package)/pyproject.toml:test) \
		$(foreach group,test coverage mutants lint types docs,--group $(group))
	@echo '# Exact versions of all that CI installs, on Python 3.11; `make constraints` renews them.' >constraints.txt
	build/constraints/bin/python -m pip freeze --all --exclude-editable --exclude pip >>constraints.txt

clean: ## all that make has made, but runs/
	find packages -name '*.so' -delete
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis packages/*/build packages/*/src/*.egg-info

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20
