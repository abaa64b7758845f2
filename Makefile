# Works on a fresh machine with Python 3.11 or later and git; everything else goes into .venv.
#
#   make run      the demo: looks at this machine, tailors a few array functions, shows what was gained
#   make test     everything CI runs: lint, types, line counts, tests
#   make lint     style and types alone
#   make bench    all suites against the peers that are installed (make peers installs them)

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
SOURCES := tailorbird tests bench tools examples

.PHONY: run test lint lines tests bench peers clean

run: $(VENV)/run.stamp
	$(BIN)/python -m tailorbird demo

test: lint lines tests

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/python -m mypy

lines: $(VENV)/dev.stamp
	$(BIN)/python tools/lines.py

tests: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -q -n 2

bench: $(VENV)/run.stamp
	$(BIN)/python -m bench all

peers: $(VENV)/run.stamp
	$(PIP) install -e '.[bench]'

$(VENV)/run.stamp: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -e .
	touch $@

$(VENV)/dev.stamp: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -e '.[dev]'
	touch $@ $(VENV)/run.stamp

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
