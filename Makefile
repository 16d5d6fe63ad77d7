# `make run` and `make test` do everything, on a fresh Debian 12 with Python 3.11 or newer, Node 20 and make.
SHELL := bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8888
# Most of the tests' time is waiting for real kernels: three at once, also on two cores. What fails is tried once more,
# since a loaded machine may be too slow for real processes; the summary shows it as a rerun.
PYTEST_OPTIONS ?= -n 3 --dist worksteal --reruns 1
FRONT := jupyter_gpu_guard/labextension/package.json
FRONT_SOURCES := $(wildcard labextension/src/*.ts labextension/src/*.tsx labextension/src/*/*.tsx labextension/src/*/*.ts \
	labextension/style/* labextension/schema/*.json) labextension/package.json labextension/tsconfig.json

.PHONY: help install run test test-python test-front benchmark accuracy mutants test-gpu chaos screenshots goldens lint format build clean

help:
	@echo "make run     install into $(VENV), build the front end, open JupyterLab with the extension"
	@echo "make test    install what the tests need and run them all: Python, TypeScript, browser"
	@echo "make benchmark  what one tick costs, beside nvitop and gpustat"
	@echo "make accuracy   who would have been ended by which rule, and what that would have given back and cost"
	@echo "make mutants  break each line of the core and see whether a test notices; takes hours: MUTANT_OPTIONS='ladder'"
	@echo "make test-gpu   check on a real NVIDIA GPU what is assumed about its driver"
	@echo "make chaos    live through many histories in which everything goes wrong (HISTORIES=20000)"
	@echo "make screenshots  take the pictures of README and docs anew"
	@echo "make goldens  write the recordings in tests/recordings and what their replay gives anew"
	@echo "make lint    ruff, mypy, import-linter, eslint, prettier"
	@echo "make format  put code into shape"
	@echo "make build   sdist and wheel in dist/"
	@echo "make clean   remove what the above made"

# --- installing -----------------------------------------------------------------------------------------------------

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed: make PYTHON=python3.11 …")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.lab: pyproject.toml labextension/package.json | $(BIN)/python
	$(BIN)/python -m pip install --quiet 'jupyterlab>=4,<5' 'notebook>=7,<8'
	touch $@

$(VENV)/.front: labextension/package.json labextension/yarn.lock $(VENV)/.lab
	cd labextension && PATH="$(CURDIR)/$(BIN):$$PATH" jlpm install --immutable
	touch $@

$(FRONT): $(FRONT_SOURCES) $(VENV)/.front
	cd labextension && PATH="$(CURDIR)/$(BIN):$$PATH" jlpm build:prod
	touch $@

$(VENV)/.install: $(FRONT)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.dev: $(FRONT)
	$(BIN)/python -m pip install --quiet --editable '.[test,lint,hub]'
	touch $(VENV)/.install $@

# The proxy of JupyterHub is no Python package.
$(VENV)/.hub: | $(BIN)/python
	npm install --silent --no-audit --no-fund --prefix $(VENV)/hub configurable-http-proxy@5
	touch $@

install: $(VENV)/.install

# --- using ----------------------------------------------------------------------------------------------------------

run: $(VENV)/.install
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/jupyter gpu-guard demo --port $(PORT) $(RUN_OPTIONS)

# --- checking -------------------------------------------------------------------------------------------------------

test: test-front test-python

test-front: $(VENV)/.dev
	cd labextension && PATH="$(CURDIR)/$(BIN):$$PATH" jlpm test

test-python: $(VENV)/.dev $(VENV)/.hub
	scripts/chromium.sh
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest $(PYTEST_OPTIONS)

# The others that are measured are installed only here.
$(VENV)/.benchmark: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[test,benchmark]'
	touch $@

benchmark: $(VENV)/.benchmark
	$(BIN)/python -m benchmarks.tick $(BENCHMARK_OPTIONS)

accuracy: $(VENV)/.dev
	$(BIN)/python -m benchmarks.accuracy $(ACCURACY_OPTIONS)

$(VENV)/.mutmut: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[test,mutation]'
	touch $@

mutants: $(VENV)/.mutmut
	nice -n 19 $(BIN)/python scripts/mutants.py $(MUTANT_OPTIONS)

test-gpu: $(VENV)/.dev
	$(BIN)/python -m tests.gpu.check $(GPU_OPTIONS)

# The pictures of README and docs, as the browser test sees them.
chaos: $(VENV)/.dev
	CHAOS_HISTORIES=$${HISTORIES:-20000} CHAOS_SEED=$${SEED:-0} $(BIN)/python -m pytest tests/endurance/test_chaos.py

screenshots: $(VENV)/.dev
	scripts/chromium.sh
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -q tests/e2e/test_browser.py tests/e2e/test_states.py
	mkdir -p docs/images
	cp tests/output/{sidebar,warning,aftermath,everywhere-light,everywhere-dark,everywhere-chinese}.png docs/images/

goldens: $(VENV)/.dev
	$(BIN)/python scripts/goldens.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/wire_types.py --check
	cd labextension && PATH="$(CURDIR)/$(BIN):$$PATH" jlpm lint:check

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python scripts/wire_types.py
	cd labextension && PATH="$(CURDIR)/$(BIN):$$PATH" jlpm lint

build: | $(BIN)/python
	rm -rf dist jupyter_gpu_guard/labextension
	$(BIN)/python -m pip install --quiet build
	$(BIN)/python -m build

clean:
	rm -rf $(VENV) dist jupyter_gpu_guard/labextension labextension/lib labextension/node_modules \
		labextension/tsconfig.tsbuildinfo tests/driver/build tests/output mutants
