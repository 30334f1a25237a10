# Everything here needs only python3 (3.11 or newer) and make: `.venv` is made on first use, of what
# requirements.txt names and of nothing else.

PYTHON ?= python3
TESTS  ?= tests
SEED   := $(or $(SEED),$(shell date +%s))
BIN    := .venv/bin
PIP    := $(BIN)/python -I -m pip -qq --disable-pip-version-check
# Without network, and deaf to whatever else on this machine could fill a gap of the lock.
PIP_OF_LOCKED := PIP_CONFIG_FILE=/dev/null $(PIP) --isolated

# Those of pyproject.toml: all of them must find what they need in the lock.
EXTRAS := deadline,service,simulation,telemetry

# The lock tool lives apart from what it locks.
PIP_TOOLS := pip-tools==7.6.2
LOCK_FLAGS ?=

.DEFAULT_GOAL := help
.PHONY: help up demo test check bench torture attacks soak fuzz dist lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: .venv/.ready ## start the service with a sample cluster and tenants that trade
	@$(BIN)/laissez up --sample laissez-sample

demo: .venv/.ready ## watch a minute of the market
	@$(BIN)/python -m laissez.sample.story

test: .venv/.ready ## run the tests (TESTS=tests/test_house.py for some of them)
	@echo "tests: $(TESTS)"
	@$(BIN)/python -m pytest -n 2 $(TESTS)

check: .venv/.ready ## lint, format, types, imports, docs
	@echo "lint"
	@$(BIN)/ruff check --quiet .
	@echo "format"
	@$(BIN)/ruff format --check .
	@echo "types"
	@$(BIN)/mypy
	@echo "house"
	@$(BIN)/python -m pytest tests/test_house.py

bench: .venv/.ready ## measure the market, the policies, the adapters, the simulator, the service
	@$(BIN)/python benchmarks/market.py
	@$(BIN)/python benchmarks/gangs.py
	@$(BIN)/python benchmarks/deadline.py
	@$(BIN)/python benchmarks/adapters.py
	@$(BIN)/python benchmarks/adapter_lines.py
	@$(BIN)/python benchmarks/simulator.py
	@$(BIN)/laissez bench service

torture: .venv/.ready ## kill the service 50 times under load (KILLS=n, SEED=n)
	@$(BIN)/python benchmarks/torture.py --kills $(or $(KILLS),50) --seed $(SEED)

attacks: .venv/.ready ## attack the service, and see what another tenant notices (ONLY="slow loris")
	@$(BIN)/python benchmarks/attacks.py $(if $(ONLY),--only "$(ONLY)")

soak: .venv/.ready ## an hour of trading, and what it leaves in memory (MINUTES=n)
	@$(BIN)/python benchmarks/soak.py --minutes $(or $(MINUTES),60)

fuzz: .venv/.ready ## a long random run of the tests (SEED=n repeats one)
	@echo "fuzz: $(TESTS), SEED=$(SEED)"
	@HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest -n 2 --hypothesis-seed=$(SEED) $(TESTS)

dist: .venv/.ready ## build the wheel and the source archive, into dist
	@rm -rf dist
	@$(BIN)/python -m hatchling build -d dist

lock: .venv-lock/.ready ## pin requirements.in (LOCK_FLAGS=--upgrade for newer versions)
	@echo "locking requirements.txt"
	@.venv-lock/bin/pip-compile --quiet --generate-hashes --strip-extras \
		--no-header --no-annotate --no-emit-options \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
		$(LOCK_FLAGS) --output-file requirements.txt requirements.in

clean: ## remove whatever make made
	@rm -rf .venv .venv-lock .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# Two steps, so that the second can't begin before the first is whole. Exactly what is locked is
# installed: pip does not look at what a package asks for, and runs nobody's setup, which would
# fetch tools that no lock names.
.venv/.locked: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		"laissez needs Python 3.11 or newer: make PYTHON=python3.11")'
	@echo "making .venv"
	@$(PYTHON) -m venv --clear .venv
	@$(PIP) uninstall --yes setuptools
	@echo "installing what is locked"
	@$(PIP) install --no-deps --require-hashes --only-binary :all: -r requirements.txt
	@touch $@

# Then pip resolves all that laissez and the house ask for, with their extras and the extras of
# their packages, from what is installed. What the lock lacks it can't get anywhere, and names.
# (`pip check` would not see what only an extra asks for.)
.venv/.ready: .venv/.locked requirements.in pyproject.toml
	@echo "installing laissez, from what is locked alone"
	@$(PIP_OF_LOCKED) install --no-index --no-build-isolation -r requirements.in -e '.[$(EXTRAS)]'
	@touch $@

.venv-lock/.ready: Makefile
	@echo "making .venv-lock"
	@$(PYTHON) -m venv --clear .venv-lock
	@.venv-lock/bin/python -m pip -qq --disable-pip-version-check install $(PIP_TOOLS)
	@touch $@
