# What a user and a contributor do here. `make help` lists it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml
NEWEST ?= python3.13
FAST := pytest -q -m "not bulk"

.PHONY: help demo test lint docs e2e chaos programs containers image image-offline oldest newest lean fuzz protos pictures clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 24

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is older than 3.11; name a newer one: make PYTHON=python3.12"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { echo "make: $(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv"; exit 2; }

$(VENV)/.user: $(SOURCES) | $(VENV)/pyvenv.cfg
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[all]'
	@touch $@

$(VENV)/.contributor: $(SOURCES) | $(VENV)/pyvenv.cfg
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(VENV)/.user $@

demo: $(VENV)/.user ## run three jobs on about a hundred devices under Venn (under two minutes)
	@$(BIN)/venn demo

test: $(VENV)/.contributor ## the test suite (under five minutes)
	$(BIN)/pytest -q

lint: $(VENV)/.contributor ## style, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.contributor ## the documentation as a site, in build/site: open build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

e2e: programs containers ## the tests that start the real programs: both of these

programs: $(VENV)/.contributor ## those on processes of this machine
	$(BIN)/pytest -q --timeout=300 -m "e2e and not containers" tests/e2e

containers: $(VENV)/.contributor $(IMAGE_FIRST) ## those in containers; skipped without an engine and our image
	$(BIN)/pytest -q -m containers tests/e2e

image: ## the container image venn-testbed; ARCH=arm64: for a Raspberry Pi
	$(PYTHON) containers/image.py $(ARCH:%=--arch=%)

image-offline: ## the same, its base made from Debian's mirrors (needs root)
	$(PYTHON) containers/image.py --offline $(ARCH:%=--arch=%)

chaos: $(VENV)/.contributor ## a minute of worlds in which everything fails; other seeds each day
	$(BIN)/venn chaos sim --seconds 50

oldest: ## the fast tests on the oldest libraries that we support
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/pip install --quiet --disable-pip-version-check --constraint tests/oldest.txt --editable '.[dev]'
	.venv-oldest/bin/$(FAST)

newest: ## the fast tests on the newest Python that we support: NEWEST=python3.13
	$(NEWEST) -m venv .venv-newest
	.venv-newest/bin/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	.venv-newest/bin/$(FAST)
	.venv-newest/bin/pytest -q tests/simulation/test_cases.py # a few that compile: Numba follows a new Python late

lean: ## an agent with nothing but the base dependencies
	$(PYTHON) -m venv .venv-lean
	.venv-lean/bin/pip install --quiet --disable-pip-version-check --editable .
	.venv-lean/bin/python tests/lean.py

fuzz: $(VENV)/.contributor ## hostile inputs for every decoder: FUZZ="tensors --seconds 300"
	$(BIN)/python -m tests.fuzz $(FUZZ)

protos: ## generate the stubs again
	$(PYTHON) -m venv .venv-protos
	.venv-protos/bin/pip install --quiet --disable-pip-version-check grpcio-tools==1.70.0 mypy-protobuf==3.6.0 'setuptools<81'
	.venv-protos/bin/python protos/generate.py $(PROTOS_FLAGS)

pictures: $(VENV)/.contributor ## draw the life-cycle diagrams of docs/pictures again (needs Graphviz: apt install graphviz)
	$(BIN)/python docs/site/lifecycles.py

clean: ## remove what make made
	rm -rf .venv .venv-oldest .venv-newest .venv-lean .venv-protos .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
