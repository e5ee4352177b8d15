# The doors of the project. Everything runs inside .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# What only the documentation needs: the tests do without.
DOCS   := $(VENV)/.installed-docs
# Two workers, a folder of tests at a time: compiled functions are shared inside a worker, so more
# workers compile more. What they compile is kept for the next run, in a folder that
# JAX_COMPILATION_CACHE_DIR can name.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadscope
# Where Python is told to keep no bytecode, each process of the tests would compile jaxdp's files and
# pytest's rewriting of the tests anew: six seconds of processor time at every start.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo docs pages lowest notebooks results test test-users test-seeds test-shapes rest nightly sample format lint types check clean

$(STAMP): pyproject.toml
	@echo "installing jaxdp, every extra and the tools of its tests into $(VENV) (JAX, matplotlib,"
	@echo "pandas, pytest and more): pip says nothing for a minute or two, and only this once"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group dev
	@touch $(STAMP)

$(DOCS): $(STAMP)
	$(BIN)/python -m pip install --quiet --editable ".[all,docs]"
	@touch $(DOCS)

demo: $(STAMP)           ## predict, simulate and compare the front page's problem, and draw it
	$(BIN)/jaxdp compare --out results/demo

notebooks: $(STAMP)      ## execute the notebooks into results/notebooks, pictures included
	$(BIN)/python notebooks/executed.py

# Programs are compiled sooner, without most of XLA's optimisations and by its older generator
# (tests/conftest.py); or as users' are, whatever the environment says.
SOONER   := JAX_DISABLE_MOST_OPTIMIZATIONS=1
AS_USERS := JAX_DISABLE_MOST_OPTIMIZATIONS=0

# Each tier of the tests is a folder of tests/. The quick tests are those of two.
QUICK := tests/unit tests/agreement -m "not slow and not nightly"

test: $(STAMP)           ## the quick tests
	$(SOONER) $(PYTEST) $(QUICK)

test-users: $(STAMP)     ## the quick tests on programs that are compiled as users' are
	$(AS_USERS) $(PYTEST) $(QUICK)

# By chance a test fails under one seed in a million: what fails here has too narrow a tolerance.
test-seeds: $(STAMP)     ## the quick tests under twenty other seeds, which takes hours
	for offset in $$(seq 20); do $(PYTEST) $(QUICK) --seed-offset $$offset || failed=1; done; exit $${failed:-0}

test-shapes: $(STAMP)    ## the quick tests, arrays held to the shapes in jaxdp's annotations
	$(PYTEST) $(QUICK) --check-shapes

# Most of their time would be compilation. The tests that are marked "optimised", and those of
# privacy (tests/conftest.py), run on users' programs.
rest: $(STAMP)           ## all other tests, but for those that take more than a minute each
	$(SOONER) $(PYTEST) -m "not quick and not optimised and not nightly"
	$(AS_USERS) $(PYTEST) -m "(optimised or private) and not nightly"

nightly: $(STAMP)        ## the tests that take more than a minute of processor time each
	$(AS_USERS) $(PYTEST) -m nightly

# The contract table, one file of each room and the front page. Warnings are of old packages about
# each other.
ROOMS  := tests/unit/test_contracts.py tests/site/documents/test_pages.py::test_the_front_page_shows_what_it_prints \
	$(addprefix tests/unit/, core/test_progress.py core/test_trajectory.py data/test_datasets.py \
	losses/test_losses.py schedules/test_schedules.py privacy/test_calibration.py \
	clipping/test_per_sample.py problems/test_linear_model.py algorithms/test_dp_gd.py \
	simulation/test_driver.py kernels/ridge/test_ridge_rules.py attacks/test_reconstruction.py \
	comparison/test_comparison.py planning/features/test_plan.py sweeps/test_sweep.py \
	plots/test_plots.py estimators/test_estimators.py explorer/test_page.py cli/test_cli_fit.py) \
	tests/agreement/theory/features/test_everyday.py
SAMPLE := -m "not slow and not nightly" -o filterwarnings= $(ROOMS)

sample: $(STAMP)         ## the contract table, a quick test file of each room and the front page
	$(SOONER) $(PYTEST) $(SAMPLE)

LOW    := .venv-lowest
lowest:                  ## the same on the lowest versions of every package that are declared
	$(PYTHON) -m venv $(LOW)
	$(LOW)/bin/python -m pip install --quiet uv
	$(LOW)/bin/uv pip install --quiet --python $(LOW)/bin/python --resolution lowest-direct \
		--editable ".[all]" --group test
	@$(LOW)/bin/python -m pip list --format freeze | grep -E "^(jax|jaxlib|equinox|diffrax|optax|numpy)="
	$(SOONER) $(LOW)/bin/python -m pytest -n 2 --dist loadscope $(SAMPLE)

# Its own folder's pages, those that are made from docstrings and results, their links and formulas:
# what is wrong in any is an error.
docs: $(DOCS)            ## the documentation with executed tutorials, in site/
	$(BIN)/python notebooks/executed.py --changed
	$(MAKE) pages

pages: $(DOCS)           ## the same, without executing a notebook
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

results: $(STAMP)        ## is every saved result of today's configuration?
	$(BIN)/python -m experiments.report --check

format: $(STAMP)         ## is everything formatted?
	$(BIN)/ruff format --check .

lint: $(STAMP)
	$(BIN)/ruff check .

# What makes the documentation is checked too, against the packages that it uses.
types: $(DOCS)
	$(BIN)/pyright

# What is found in seconds comes before what takes minutes. None of the first needs two processors.
check: $(DOCS)           ## what a change has to pass
	$(MAKE) --jobs 2 format lint types results pages
	$(MAKE) test
	$(MAKE) lowest
	$(MAKE) rest

clean:
	rm -rf $(VENV) $(LOW) results site $${XDG_CACHE_HOME:-$$HOME/.cache}/jaxdp-tests
