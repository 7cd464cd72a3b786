# Each target is a line or two that can also be typed. Needed: Python 3.11 or newer, pip, make.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV   ?= .venv
JOBS   ?= 2
ROUNDS ?= 50
REAL   ?= build/real
CONFORMANCE ?= build/conformance
BIN    := $(VENV)/bin
SETUP  := $(VENV)/.setup-stamp

# Set where no __pycache__ is wanted, this has each daemon of a test compile mcpd once more: 0.4 s.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: drill soak size hostile hostile-http help setup fmt lint test check faults faults-prove model model-mutants demo bench stress transcripts real matrix conformance clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-13s %s\n", $$1, $$2}' Makefile

setup: $(SETUP) ## a virtual environment with mcpd and its tools, in .venv

# Some distributions ship Python without the ensurepip that `venv` wants: then pip installs pip.
$(SETUP): pyproject.toml
	@test -n "$(PYTHON)" || { echo 'make: no Python 3.11 or newer found; name one with PYTHON=...' >&2; exit 1; }
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || { \
		$(PYTHON) -m venv --clear --without-pip $(VENV) && \
		$(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,dev]'
	@touch $@

fmt: setup ## format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: setup ## ruff, mypy, import contracts, spelling, plain words
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python -m tests.plain_words

test: setup ## every test that needs no network and takes no minutes
	$(BIN)/python -m pytest tests -n $(JOBS) --dist worksteal -m 'not real and not stress and not drill and not long'

check: lint test ## what CI runs first

faults: setup ## what the world does to us, with the tests that take longer
	$(BIN)/python -m pytest tests/faults -n $(JOBS) -m 'not drill' $(PYTEST_ARGS)

faults-prove: setup ## remove what each of these tests protects, and see it fail (CASE=B143: of one case)
	$(BIN)/python -m tests.faults.prove --jobs $(JOBS) $(if $(CASE),--case $(CASE))

STEPS ?= 1000000
model: setup ## both models of the mux and that of the gate, for STEPS steps [SEED=...]
	$(BIN)/python -m tests.property.model --steps $(STEPS) --jobs $(JOBS) $(if $(SEED),--seed $(SEED))

model-mutants: setup ## mistakes put into the mux, the gate and the HTTP front: the models are to find each
	$(BIN)/python -m tests.property.mutants
	$(BIN)/python -m tests.property.gate.mutants
	$(BIN)/python -m tests.property.http.mutants

demo: setup ## twenty sessions on two example servers, and nothing left behind
	$(BIN)/python examples/demo.py

bench: setup ## the benchmark of benchmarks/README.md
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.http
	$(BIN)/python -m benchmarks.remote
	$(BIN)/python -m benchmarks.trust

drill: setup ## daemons killed and replaced ROUNDS times each, under clients at work
	DRILL_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest tests/faults -m drill -n 0 -s

stress: setup ## 100,000 calls with a server that crashes every 1,000
	$(BIN)/python -m pytest tests -m stress -n 0 -s

MINUTES ?= 30
soak: setup ## servers and sessions that misbehave for MINUTES; what the daemon holds then
	$(BIN)/python -m tests.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

SECONDS ?= 5
size: setup ## each row of docs/limits.md for SECONDS, the latency of others judged strictly [ROW=...]
	MCPD_SIZE_SECONDS=$(SECONDS) $(BIN)/python -m pytest tests/size -n 0 -s --tb=short $(if $(ROW),-k "test_size[$(ROW)]")

MESSAGES ?= 1000000
hostile: setup ## MESSAGES of hostile peers, on the core and on a daemon [SEED=...]
	$(BIN)/python -m tests.property.hostile --messages $(MESSAGES) --jobs $(JOBS) $(if $(SEED),--seed $(SEED))

hostile-http: setup ## MESSAGES of hostile HTTP clients, on a daemon with good sessions [SEED=...]
	$(BIN)/python -m tests.property.hostile --on http --messages $(MESSAGES) $(if $(SEED),--seed $(SEED))

transcripts: setup ## rewrite the expected side of tests/transcripts; read the diff
	MCPD_REWRITE_TRANSCRIPTS=1 $(BIN)/python -m pytest tests/transcripts -q

# Each list of packages gets a directory of its own. Those of npm are installed where there is npm;
# their tests say why they skip elsewhere. Their install scripts download browsers and report the
# installation to their makers: only that of Node is run, which fetches the program.
$(REAL)/.stamp: $(filter-out %/programs.json,$(wildcard tests/real/packages/*))
	mkdir -p $(REAL)
	for list in servers sdk1 sdk126 old fastmcp; do \
		test -x $(REAL)/$$list/bin/pip || $(PYTHON) -m venv $(REAL)/$$list || exit; \
		$(REAL)/$$list/bin/python -m pip install --quiet --disable-pip-version-check \
			-r tests/real/packages/$$list.txt || exit; \
	done
	cp tests/real/packages/package.json $(REAL)/package.json
	if command -v npm >/dev/null; then \
		npm install --prefix $(REAL) --ignore-scripts --no-audit --no-fund --loglevel=error && \
		npm rebuild --prefix $(REAL) --loglevel=error node || exit; \
	else echo 'make: no npm here; the tests of its packages will be skipped' >&2; fi
	@touch $@

# Programs that take 1.5 GB. The scripts of these two put the program for this system in its place.
$(REAL)/programs/.stamp: tests/real/packages/programs.json $(REAL)/.stamp
	mkdir -p $(REAL)/programs
	cp $< $(REAL)/programs/package.json
	if command -v npm >/dev/null; then \
		npm install --prefix $(REAL)/programs --ignore-scripts --no-audit --no-fund --loglevel=error && \
		npm rebuild --prefix $(REAL)/programs --loglevel=error @anthropic-ai/claude-code opencode-ai || exit; \
	fi
	@touch $@

PROGRAMS ?= $(REAL)/programs/.stamp

real: setup $(REAL)/.stamp $(PROGRAMS) ## real servers and clients of npm and PyPI (downloads them)
	MCPD_REAL=$(abspath $(REAL)) $(BIN)/python -m pytest tests/real -m 'real and not matrix' -n 0 $(PYTEST_ARGS)

matrix: setup $(REAL)/.stamp ## every client SDK on every server SDK, directly and through mcpd
	MCPD_REAL=$(abspath $(REAL)) $(BIN)/python -m pytest tests/real/test_matrix.py tests/real/test_questions.py \
		tests/real/test_http.py tests/real/test_remote.py \
		-m real -n 0 --no-skips $(PYTEST_ARGS)

# The suite needs a newer Node than many systems have, and brings it.
$(CONFORMANCE)/.stamp: tests/conformance/package.json tests/conformance/package-lock.json
	mkdir -p $(CONFORMANCE)
	cp $^ $(CONFORMANCE)
	if command -v npm >/dev/null; then \
		npm ci --prefix $(CONFORMANCE) --ignore-scripts --no-audit --no-fund --loglevel=error && \
		npm rebuild --prefix $(CONFORMANCE) --loglevel=error node || exit; \
	else echo 'make: no npm here; the conformance suite will be skipped' >&2; fi
	@touch $@

conformance: setup $(CONFORMANCE)/.stamp ## the official conformance suite of npm, as server and as client (downloads it)
	MCPD_CONFORMANCE=$(abspath $(CONFORMANCE)) $(BIN)/python -m pytest tests/conformance -n 0 $(PYTEST_ARGS)

clean: ## remove what the targets above made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
