# All this needs is Python 3.11 or newer (with venv), make and a package index.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
RUNNING := $(VENV)/.running
PEERS  := tests/peers
FRAMEWORKS := $(PEERS)/frameworks

# `make run` lets memory_ingest_file read this directory, unless told otherwise.
export BRAINS_INGEST_ROOTS ?= $(CURDIR)

# Each tier contains all tests of the tier before it; tests/tiers.py says how. With three workers on two cores, one can
# work while another waits for a process or a socket. Python may write .pyc files, because without them every worker
# spends five seconds on compiling the tests.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) * 3 // 2)')
PYTEST = env -u BRAINS_INGEST_ROOTS -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -q
INSTALLED_FRAMEWORKS = $(PEERS)/node_modules/.installed $(FRAMEWORKS)/node_modules/.installed \
  $(patsubst $(FRAMEWORKS)/requirements/%.txt,.frameworks/%/.installed,$(wildcard $(FRAMEWORKS)/requirements/*.txt))
CREATE = { $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  { echo "brains-gateway needs Python 3.11 or newer: install it, or name it with make PYTHON=python3.12." >&2; exit 1; }; \
  $(PYTHON) -c 'import venv, ensurepip' 2> /dev/null || \
  { echo "This Python has no venv: install it (Debian: apt-get install python3-venv)." >&2; exit 1; }; \
  $(PYTHON) -m venv --clear $(VENV) || exit 1; }
# pip shows only its errors.
INSTALL = $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
FAILED = { echo "The installation failed; what pip says above tells why. Run make again once it is fixed." >&2; exit 1; }
TIERED = $(PYTEST) -n $(WORKERS) --dist worksteal --ignore=$(PEERS)

.PHONY: help run release set-up-peers quick test test-all test-peers test-twice test-off test-frameworks nightly coverage check format bench proof clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

run: $(RUNNING) ## Set up, then serve MCP on http://127.0.0.1:8787/mcp with the embedded brain
	@$(BIN)/brains-gateway serve

quick: $(STAMP) ## Set up, then run what finds most mistakes, in a minute
	@TIER=quick $(TIERED) $(ARGS)

test: $(STAMP) ## Set up, then run what a change should pass, in five minutes
	@TIER=test $(TIERED) $(ARGS)

test-all: $(STAMP) ## Every test that needs Python alone, in a quarter of an hour or so
	@TIER=all $(TIERED) $(ARGS)

test-twice: set-up-peers ## make test and the conformance suite, with each call answered by the direct path and by FastMCP
	@TIER=test TWICE=1 $(TIERED) $(ARGS)
	@TWICE=1 $(PYTEST) $(PEERS)/test_conformance.py

test-off: $(STAMP) ## make test, with each call of a gateway answered by FastMCP (BRAINS_DIRECT=off)
	@TIER=test DIRECT=off $(TIERED) $(ARGS)

set-up-peers: $(STAMP) $(PEERS)/node_modules/.installed .frameworks/openai_agents/.installed .rollout/.installed ## Install what test-peers needs

test-peers: set-up-peers ## Test with clients of other makes; needs Node 20 and npm
	@$(PYTEST) $(PEERS) $(ARGS)

test-frameworks: $(STAMP) $(INSTALLED_FRAMEWORKS) ## Test with twelve agent frameworks, which take 2.5 GB; needs what test-peers needs
	@TIER=nightly $(PYTEST) $(FRAMEWORKS) $(ARGS)

nightly: $(STAMP) $(INSTALLED_FRAMEWORKS) .rollout/.installed ## Everything, with every case and larger sizes: an hour or two; needs what test-peers needs
	@TIER=nightly $(TIERED) $(ARGS)
	@TIER=nightly $(PYTEST) $(PEERS) $(ARGS)
	@TIER=test DIRECT=off $(TIERED) $(ARGS)
	@# The results go to other files, so that tests/faults/PROOF.md and tests/broken/PLANTED.md stay as they are.
	@env -u BRAINS_INGEST_ROOTS $(BIN)/python -m tests.faults.proof --output $(VENV)/PROOF.md
	@env -u BRAINS_INGEST_ROOTS $(BIN)/python -m tests.broken.planted --output $(VENV)/PLANTED.md

release: $(STAMP) $(PEERS)/node_modules/.installed ## Build wheel, sdist and bundle into dist/ and go through RELEASE.md; publishes nothing
	@$(BIN)/python -m tests.release $(ARGS)

coverage: $(STAMP) ## Branch coverage of make test; tests/COVERAGE.md says what is not reached, and why
	@TIER=test env -u BRAINS_INGEST_ROOTS $(BIN)/coverage run -m pytest -q -n $(WORKERS) --ignore=$(PEERS) $(ARGS)
	@$(BIN)/coverage combine -q
	@$(BIN)/coverage report

check: $(STAMP) ## Lint and type-check
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(STAMP) ## Format and fix what can be fixed
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(STAMP) ## Measure the budgets; writes bench/RESULTS.md (ARGS=--full: longer, with more calls and streams)
	@env -u BRAINS_INGEST_ROOTS $(BIN)/python -m bench $(ARGS)

proof: $(STAMP) $(PEERS)/node_modules/.installed ## Faults, kills, overload and crowds in full size; writes tests/faults/PROOF.md
	@env -u BRAINS_INGEST_ROOTS $(BIN)/python -m tests.faults.proof

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) $(PEERS)/node_modules $(FRAMEWORKS)/node_modules .frameworks .rollout .minilm .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PEERS)/node_modules/.installed: $(PEERS)/package.json
	@command -v npm > /dev/null || { echo "make test-peers needs Node 20 or newer, with npm: install it first." >&2; exit 1; }
	@# npm builds a native module. If Node's headers are installed beside Node, the build uses them and downloads nothing.
	@# Some peers bring a newer Node, and npm runs the build with that one, so npm is told for which Node it builds.
	@prefix=$$(node -p "require('path').resolve(process.execPath, '../..')") && \
	  if [ -f "$$prefix/include/node/node.h" ]; then export npm_config_nodedir="$$prefix"; fi && \
	  export npm_config_target="$$(node -p process.versions.node)" && \
	  cd $(PEERS) && npm install --no-package-lock --no-audit --no-fund --loglevel=error
	@cd $(PEERS) && node -e "new (require('better-sqlite3'))(':memory:')" 2> /dev/null || \
	  { echo "The daemon's native module could not be built: install a C++ compiler, make and Node's headers." >&2; exit 1; }
	@touch $@

# Each framework has an environment of its own, because its requirements conflict with ours. The lists are complete, so
# pip resolves nothing. pip compiles nothing either: Python compiles each module when it is first imported.
.frameworks/%/.installed: $(FRAMEWORKS)/requirements/%.txt | $(STAMP)
	@$(PYTHON) -m venv --clear --without-pip $(@D)
	@$(BIN)/python -m pip --python $(@D) install -q --disable-pip-version-check --no-deps --no-compile -r $<
	@touch $@

# Helm, and the schemas of Kubernetes and of the MCP registry, with which tests check deploy/.
.rollout/.installed: $(PEERS)/rollout.txt | $(STAMP)
	@$(PYTHON) -m venv --clear --without-pip $(@D)
	@$(BIN)/python -m pip --python $(@D) install -q --disable-pip-version-check --no-deps --no-compile -r $<
	@touch $@

# The frameworks need the newer Node that comes with the other peers.
$(FRAMEWORKS)/node_modules/.installed: $(FRAMEWORKS)/package.json | $(PEERS)/node_modules/.installed
	@export PATH="$(CURDIR)/$(PEERS)/node_modules/node/bin:$$PATH" && \
	  cd $(FRAMEWORKS) && npm install --no-package-lock --no-audit --no-fund --loglevel=error
	@touch $@

# The gateway needs a third of the packages that its tests need. Both set-ups share one environment: after `make run`,
# the first `make test` adds only the packages for tests, and after `make test`, `make run` installs nothing.
$(RUNNING): pyproject.toml constraints.txt
	@if [ $(STAMP) -nt pyproject.toml ] && [ $(STAMP) -nt constraints.txt ]; then touch $@; else \
	  $(CREATE) && echo "Setting up $(VENV) to run, once; this takes about a minute." && \
	  $(INSTALL) -e . || $(FAILED); $(BIN)/python -m compileall -q gateway contract && touch $@; fi

$(STAMP): pyproject.toml constraints.txt
	@if ! { [ $(RUNNING) -nt pyproject.toml ] && [ $(RUNNING) -nt constraints.txt ]; }; then $(CREATE); fi && \
	  echo "Setting up $(VENV) to run and test, once; this takes about a minute." && \
	  $(INSTALL) -e '.[dev]' || $(FAILED)
	@$(BIN)/python -m compileall -q gateway contract
	@touch $(RUNNING) $@
