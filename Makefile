# Two commands matter: `make demo` and `make test`. Each sets up what it needs, in .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# Tests use all cores, so each process has one thread; and they start hundreds of processes, so byte code is kept.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: demo demo-live demo-wheel test test-fast test-nightly setup lint types imports docs size check test-newest test-statistics fuzz
.PHONY: test-spark bench bench-speed bench-accuracy bench-tables bench-answers bench-people bench-long bench-serve bench-spark bench-pages audit lock clean help

help:           ## what can be made
	@grep -E '^[a-z-]+: .*##' Makefile | sed -E 's/:.*##/\t/' | expand -t 16

demo: $(VENV)/.demo  ## run on a year of flights, publish again and again, and draw what came out
	rm -rf out/demo && $(BIN)/headwater demo --out out/demo

demo-live: $(VENV)/.live  ## serve the flights live, feed them, and print the address of the page; Ctrl-C ends it
	rm -rf out/demo-live && $(BIN)/headwater demo --live --out out/demo-live

demo-wheel: $(BIN)/python  ## the same from a built package, alone in an environment of its own and outside of this folder
	rm -rf out/wheel && $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir out/wheel .
	$(PYTHON) -m venv --clear out/wheel/venv
	out/wheel/venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "$$(ls out/wheel/*.whl)[cli,evaluate]"
	cd out/wheel && rm -rf demo && venv/bin/headwater demo --out demo

test: $(VENV)/.dev   ## every test, on all cores
	$(PYTEST)

test-fast: $(VENV)/.dev  ## most tests in less than a minute, for the inner loop
	$(PYTEST) -q -m "not slow" --hypothesis-profile fast

test-nightly: $(VENV)/.dev  ## every test, those that look at more in their full size: about an hour
	HEADWATER_NIGHTLY=1 nice $(PYTEST)

setup: $(VENV)/.dev  ## everything a developer needs

lint: $(VENV)/.dev   ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev  ## mypy, strict
	$(BIN)/mypy

imports: $(VENV)/.dev  ## the trust boundary between data and publication
	$(BIN)/lint-imports

docs: $(VENV)/.dev   ## the documentation site, in out/site
	$(BIN)/python tools/write-cli-docs --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir out/site  # not --quiet: it hides what --strict counts

size:           ## lines and words, and what they may be
	$(PYTHON) tools/size --check

check: test lint types imports docs size  ## all that CI asks

test-newest: ## the tests once more, on the newest Python that can be found
	$(MAKE) test VENV=.venv-newest PYTHON="$$(sh tools/newest-python)"

test-spark: $(VENV)/.spark  ## on a real cluster of Spark, in minutes; needs a Java 17 runtime, and says so
	HEADWATER_SPARK=$(or $(HEADWATER_SPARK),yes) OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/spark

test-statistics: $(VENV)/.dev  ## a thousand million draws of noise, in minutes; writes docs/benchmarks/statistics.md
	nice $(BIN)/python -m pytest tests/statistics/test_health.py -s -q

fuzz: $(VENV)/.fuzz  ## twenty minutes of odd inputs, guided by coverage, for everything that parses; writes docs/benchmarks/fuzz.md
	nice $(BIN)/python -m benchmarks.fuzz --page

audit: $(VENV)/.dev  ## attack the promise
	nice $(BIN)/headwater audit --runs 4000

bench-long: $(VENV)/.dev  ## a hundred million points, and what they leave in memory
	nice $(BIN)/python -m benchmarks.long_run

bench-accuracy: $(VENV)/.dev  ## how far releases are from the data, in minutes; SIZE=full takes an hour of processor time
	OMP_NUM_THREADS=1 nice $(BIN)/python -m benchmarks.accuracy --size $(or $(SIZE),quick)

bench-tables: $(VENV)/.dev  ## how good releases of wide tables are, in minutes; it goes on where it was; HOW=--sealed runs on sealed tables too
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 nice $(BIN)/python -m benchmarks.tables --seeds $(or $(SEEDS),1) $(HOW)

bench-answers: $(VENV)/.dev  ## how often error bars of answers hold; SIZE=quick takes ten minutes, HOW=--sealed runs sealed tables
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 SIZE=$(SIZE) nice $(BIN)/python -m benchmarks.answers $(HOW)

bench-people: $(VENV)/.dev  ## errors against the cap on records of a person, and memory at ten million people; ten minutes
	OMP_NUM_THREADS=1 nice $(BIN)/python -m benchmarks.people --size $(or $(SIZE),full)
	OMP_NUM_THREADS=1 nice $(BIN)/python -m benchmarks.people_memory

bench: $(VENV)/.dev  ## every benchmark; slow, and it writes into docs/benchmarks
	$(BIN)/python -m benchmarks.noise
	$(BIN)/python -m benchmarks.cost
	$(BIN)/python -m benchmarks.theorem
	$(MAKE) bench-speed bench-accuracy bench-tables bench-people bench-long

bench-pages: $(VENV)/.dev  ## the pages of all benchmarks once more, from the numbers that are kept; measures nothing
	$(BIN)/python -m benchmarks

bench-speed: $(VENV)/.dev  ## speed against bare NumPy and pyarrow
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.table_speed

bench-serve: $(VENV)/.dev  ## the service: speed, readers and writers, memory, and fifty kills; writes docs/benchmarks/serve.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.serve

bench-spark: $(VENV)/.spark  ## Spark: against its own groupBy, and what reaches the driver; writes docs/benchmarks/spark.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.spark

lock: $(VENV)/.spark   ## pin what is installed now as what everybody installs
	$(BIN)/python -m pip freeze --exclude-editable > constraints.txt

clean:  ## forget every environment and cache
	rm -rf .venv .venv-newest out .cache .hypothesis .ruff_cache .mypy_cache .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Headwater needs Python 3.11 or newer; this is $$($(PYTHON) --version). Say which with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up $(VENV) (once, about a minute) ..."
	@$(PIP) -e '.[cli,evaluate]' && touch $@

$(VENV)/.live: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up $(VENV) (once, about a minute) ..."
	@$(PIP) -e '.[serve,evaluate]' && touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up $(VENV) with the developer's tools (once, about a minute) ..."
	@$(PIP) -e '.[dev]' && touch $@

$(VENV)/.spark: $(VENV)/.dev
	@$(PIP) -e '.[dev,spark]' && touch $@

$(VENV)/.fuzz: $(VENV)/.dev
	@$(PIP) -e '.[dev,fuzz]' && touch $@
