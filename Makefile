# make demo     install, then watch a model learn 4x4 Sudoku on the CPU
# make check    install with the tools, then everything that must be green
# make fix      repair what the tools can repair
# make docs     build the site into site/ and serve it
# make golden   DIR=folder of golden cases
# make clean    remove what these commands made, runs/ excepted

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SOURCE := dllmzoo tests docs

export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export NO_MKDOCS_2_WARNING := 1

.PHONY: help demo check lint types test site fix docs golden clean

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

demo: $(VENV)/installed
	$(BIN)/dllmzoo train recipes/egspo_sa_sudoku.yaml output=runs/demo --overwrite

check: lint types test site

lint: $(VENV)/installed-dev
	$(BIN)/ruff format --check $(SOURCE)
	$(BIN)/ruff check $(SOURCE)

types: $(VENV)/installed-dev
	$(BIN)/pyright

test: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2

site: $(VENV)/installed-dev
	$(BIN)/mkdocs build --strict --quiet

fix: $(VENV)/installed-dev
	$(BIN)/ruff check --fix $(SOURCE)
	$(BIN)/ruff format $(SOURCE)

docs: $(VENV)/installed-dev
	$(BIN)/mkdocs serve

golden: $(VENV)/installed-dev
	@test -n "$(DIR)" || { echo "say which cases: make golden DIR=folder" >&2; exit 2; }
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 tests/golden --golden "$(DIR)"

clean:
	rm -rf $(VENV) site dist build .pytest_cache .ruff_cache .hypothesis .benchmarks
	find $(SOURCE) -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: an install is repeated only when what it was made from changes.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "dllmzoo needs Python 3.11 or newer; name one: make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable ".[dev]"
	@touch $(VENV)/installed $@
