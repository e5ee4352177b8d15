# The doors of the project. Everything runs inside .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Two workers: compiled functions are shared inside a worker, so more workers compile more. What
# they compile is kept for the next run, in a folder that JAX_COMPILATION_CACHE_DIR can name.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile

.PHONY: demo test test-slow test-seeds test-shapes test-profile test-all format lint types check clean

$(STAMP): pyproject.toml
	@echo "installing jaxdp, every extra and the tools of its tests into $(VENV) (JAX, matplotlib,"
	@echo "pandas, pytest and more): pip says nothing for a minute or two, and only this once"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group dev
	@touch $(STAMP)

demo: $(STAMP)           ## predict, simulate and compare the front page's problem, and draw it
	$(BIN)/jaxdp compare --out results/demo

# Compiled without most of XLA's optimisations, which takes a quarter less time in all; `make check`
# runs the same tests on the programs that users run.
test: $(STAMP)           ## the quick tests
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(PYTEST) -m "not slow"

test-slow: $(STAMP)      ## the others
	$(PYTEST) -m slow

# By chance a test fails under one seed in a million: what fails here has too narrow a tolerance.
test-seeds: $(STAMP)     ## the quick tests under twenty other seeds, which takes hours
	for offset in $$(seq 20); do $(PYTEST) -m "not slow" --seed-offset $$offset || failed=1; done; exit $${failed:-0}

test-shapes: $(STAMP)    ## the quick tests, arrays held to the shapes in jaxdp's annotations
	$(PYTEST) -m "not slow" --check-shapes

test-profile: $(STAMP)   ## the quick tests, and what each costs
	$(PYTEST) -m "not slow" --profile

# Not one after the other: what is compiled for the quick tests serves the slow ones.
test-all: $(STAMP)       ## the quick tests and the others, in one run
	$(PYTEST)

format: $(STAMP)         ## is everything formatted?
	$(BIN)/ruff format --check .

lint: $(STAMP)
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/pyright

# What is found in seconds comes before what takes minutes.
check: format lint types test-all  ## what a change has to pass

clean:
	rm -rf $(VENV) results
