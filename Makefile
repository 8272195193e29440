# The tasks of a contributor, in the environment VENV: the active one, or .venv where none is active.
# `.ci/run` does what `make all` does, in a fresh environment.

VENV ?= $(or $(VIRTUAL_ENV),$(wildcard .venv))
BIN := $(if $(VENV),$(VENV)/bin/)

.DEFAULT_GOAL := help
.PHONY: help install format lint types contracts test test-slow mutants fuzz nightly docs benchmarks benchmarks-compare all

help: ## List the tasks
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

install: ## Make .venv with everything that the tasks need
	python3 -m venv .venv
	.venv/bin/pip install -c deploy/constraints.txt -e '.[docs,embedded,fuzz,pipeline,test]'

format: ## Format the code
	$(BIN)ruff format .

lint: ## Check the format and ruff's rules
	$(BIN)ruff format --check .
	$(BIN)ruff check .
	@$(BIN)python -m tests.support.rules.sizes

types: ## Check the types
	$(BIN)mypy

contracts: ## Check which floor imports which
	$(BIN)lint-imports

test: ## Run the tests, without the slow ones
	$(BIN)pytest

test-slow: ## Run the slow tests only
	$(BIN)pytest -n 3 -m slow

mutants: ## Plant a seventh of the breaks, those of today, and have the tests see them
	$(BIN)python -m tests.mutants --part today

fuzz: ## Fuzz what reads bytes of others, for four minutes
	$(BIN)python -m tests.fuzz --seconds 240

nightly: ## Plant all breaks, and run schedules, chaos and fuzzing of today, for hours
	$(BIN)python -m tests.nightly

docs: ## Build the site in docs/_build
	$(BIN)sphinx-build -W --keep-going -q docs docs/_build

# What has no Pulsar, and can be run.
MEASURED := $(filter-out %_pulsar.py %_side_by_side.py,$(shell grep -l '^if __name__' tests/benchmarks/*.py))

benchmarks: ## Run the benchmarks; each prints one JSON object
	for each in $(MEASURED); do \
		$(BIN)python $$each --json || exit; \
	done

BASE ?= HEAD~1
BENCHMARK ?= footprint

benchmarks-compare: ## Run BENCHMARK by turns at the revision BASE and here, and print the ratios
	$(BIN)python tests/benchmarks/machine/compare.py $(BASE) $(BENCHMARK) $(OPTIONS)

all: lint types contracts test test-slow mutants fuzz docs ## Run everything that a change must pass
