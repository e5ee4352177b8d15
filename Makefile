# The doors of the project. Everything runs inside .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Two workers: compiled functions are shared inside a worker, so more workers compile more.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile

.PHONY: demo test test-slow test-all format lint types check clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group dev
	@touch $(STAMP)

demo: $(STAMP)           ## predict, simulate and compare the front page's problem, and draw it
	$(BIN)/jaxdp compare --out results/demo

test: $(STAMP)           ## the quick tests
	$(PYTEST) -m "not slow"

test-slow: $(STAMP)      ## the others
	$(PYTEST) -m slow

test-all: test test-slow

format: $(STAMP)         ## is everything formatted?
	$(BIN)/ruff format --check .

lint: $(STAMP)
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/pyright

check: test-all format lint types

clean:
	rm -rf $(VENV) results
