# Everything runs in .venv, which `make install` fills with the locked versions.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
REFERENCE := .venv-reference
LOCAL_MODEL := .venv-local-model
ROOT ?= examples/demo
PORT ?= 3000

.PHONY: help install demo ui test test-slow test-s3 test-soak test-all reference local-model lint types check lock bench pictures clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

install: $(VENV)/.installed ## Create .venv and install the locked versions

$(VENV)/bin/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info[:2] <= (3, 13) else "Python 3.11, 3.12 or 3.13 is needed; set PYTHON=/path/to/python3.11")'
	@"$(PYTHON)" -m venv $(VENV) || (rm -rf $(VENV); echo "Could not create $(VENV). On Debian and Ubuntu: apt install python3-venv"; exit 1)

$(VENV)/.installed: requirements.lock pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

demo: $(VENV)/.installed ## Index the demo corpus without a key or a network, and ask one question in each mode
	@$(BIN)/python examples/demo/run.py

ui: $(VENV)/.installed ## Open the Dagster UI (ROOT=folder of a workspace, PORT=3000)
	$(BIN)/graphrag-assets ui --root $(ROOT) --port $(PORT)

test: $(VENV)/.installed-dev ## Run the fast tests
	$(BIN)/python -m pytest -m "not slow and not soak" -n 3 --dist loadfile --no-loadscope-reorder

test-slow: $(VENV)/.installed-dev ## Run the slow tests, and the unit tests of storage a second time on an S3 server
	$(BIN)/python -m pytest -m "slow and not soak" -n 3 --dist loadfile --no-loadscope-reorder
	GRAPHRAG_TEST_STORAGE=s3 $(BIN)/python -m pytest tests/unit -m "storage and not soak" -n 3 --dist loadfile --no-loadscope-reorder

test-s3: $(VENV)/.installed-dev ## Run the tests of whole workspaces a second time, with their index on an S3 server
	GRAPHRAG_TEST_STORAGE=s3 $(BIN)/python -m pytest tests/pipeline -m "storage and not slow and not soak" -n 2 --dist loadfile --no-loadscope-reorder

test-soak: $(VENV)/.installed-dev ## Run for an hour: many random changes, a crash at every write, fifty killed runs
	$(BIN)/python -m pytest -m soak

test-all: test test-slow test-s3 ## Run all tests

$(REFERENCE)/.installed: tests/reference/requirements.lock
	@test -x $(REFERENCE)/bin/python || "$(PYTHON)" -m venv $(REFERENCE)
	$(REFERENCE)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $<
	@touch $@

reference: $(VENV)/.installed-dev $(REFERENCE)/.installed ## Let Microsoft GraphRAG's own code read and search our snapshots (installs it in .venv-reference)
	GRAPHRAG_REFERENCE_PYTHON=$(CURDIR)/$(REFERENCE)/bin/python $(BIN)/python -m pytest tests/reference -n 2 --dist loadfile --no-loadscope-reorder

$(LOCAL_MODEL)/.installed: tests/local_model/requirements.lock
	@test -x $(LOCAL_MODEL)/bin/python || "$(PYTHON)" -m venv $(LOCAL_MODEL)
	$(LOCAL_MODEL)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

local-model: $(VENV)/.installed-dev $(LOCAL_MODEL)/.installed ## Index with a real llama.cpp server and a tiny model (installs them in .venv-local-model)
	GRAPHRAG_LOCAL_MODEL_PYTHON=$(CURDIR)/$(LOCAL_MODEL)/bin/python $(BIN)/python -m pytest tests/local_model

lint: $(VENV)/.installed-dev ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev ## Check types
	$(BIN)/mypy

check: lint types test ## Lint, types, fast tests

lock: ## Lock the newest versions that pyproject.toml allows (needs uv)
	uv pip compile pyproject.toml --all-extras --python-version 3.11 --generate-hashes --no-strip-extras --no-header --no-annotate --no-emit-index-url --no-emit-find-links -q -o requirements-dev.lock
	uv pip compile pyproject.toml --extra embedded --extra documents --extra ui -c requirements-dev.lock --python-version 3.11 --generate-hashes --no-strip-extras --no-header --no-annotate --no-emit-index-url --no-emit-find-links -q -o requirements.lock

bench: $(VENV)/.installed-dev ## Measure indexing against the simulated model
	$(BIN)/python bench/index.py

pictures: $(VENV)/.installed-dev ## Take the pictures of docs/dagster.md anew (needs Chromium)
	$(BIN)/python -m tests.browser.pictures

clean: ## Remove the environment and what the demo made
	rm -rf $(VENV) $(REFERENCE) $(LOCAL_MODEL) examples/demo/output examples/demo/.dagster examples/demo/.cache
