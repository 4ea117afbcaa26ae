# make conformance judges a scheduler; make test tests this suite. Everything needed is installed on the first use.

CANDIDATE  ?= candidates/gpu-packing.yaml
PROVIDER   ?= local
KUBERNETES ?= 1.37
SUITES     ?= suites
SELECT     ?=
RESULTS    ?= results
ITERATIONS ?= 1
NODE_IMAGE ?=
MATRIX     ?= nightly.yaml
PARALLEL   ?=
VARIANTS   ?=

PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest -v -p fixtures.plugin -p reports.plugin
RUN = --candidate $(CANDIDATE) --provider $(PROVIDER) --kubernetes $(KUBERNETES) --select '$(SELECT)' --results $(RESULTS) \
	--iterations $(ITERATIONS) $(if $(NODE_IMAGE),--node-image $(NODE_IMAGE))
GIVEN  := $(foreach name,CANDIDATE PROVIDER KUBERNETES NODE_IMAGE SUITES SELECT RESULTS ITERATIONS,\
	$(if $(filter command environment,$(firstword $(origin $(name)))),$(name)='$($(name))'))

.PHONY: help setup conformance signoff kind-image nightly test prove check bench doctor docs lock clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

.venv/installed: requirements.lock
	@python3 -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed, python3 is " + sys.version.split()[0])'
	python3 -m venv .venv
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	@touch $@

.venv/kind: requirements-kind.lock .venv/installed
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-kind.lock
	@touch $@

setup: .venv/installed ## Install the Python dependencies into .venv and build the components
	$(PYTHON) -m clusters build --kubernetes $(KUBERNETES)

conformance: .venv/installed $(if $(filter kind,$(PROVIDER)),.venv/kind) ## Judge CANDIDATE and write the sign-off report
	UNRESERVE_COMMAND="make conformance $(strip $(GIVEN))" $(PYTEST) $(SUITES) $(RUN)

signoff: .venv/installed $(if $(filter kind,$(PROVIDER)),.venv/kind) ## Judge CANDIDATE whole; write the sign-off bundle, or what stands in its way
	UNRESERVE_COMMAND="make conformance $(strip $(GIVEN))" $(PYTEST) $(SUITES) $(RUN) --nightly --signoff

kind-image: .venv/installed ## Make a node image for PROVIDER=kind where no registry is reachable
	$(PYTHON) -m clusters kind-image --kubernetes $(KUBERNETES)

nightly: .venv/installed $(if $(shell grep -E '^[^\#]*providers:.*kind' $(MATRIX)),.venv/kind) ## Judge each candidate of MATRIX on each minor and provider
	$(PYTHON) -m nightly run --matrix '$(MATRIX)' --results $(RESULTS) $(if $(PARALLEL),--parallel $(PARALLEL))

test: setup ## Test the suite itself, broken schedulers included
	$(PYTHON) -m pytest tests

prove: setup ## Prove the suite on VARIANTS, on all of them and on healthy schedulers if none is named
	$(PYTHON) -m candidates build candidates/reference.yaml --kubernetes $(KUBERNETES)
	$(PYTHON) -m tests.proof run --kubernetes $(KUBERNETES) --results $(RESULTS) --variants '$(VARIANTS)' \
		$(if $(PARALLEL),--parallel $(PARALLEL))

check: .venv/installed ## Lint, types, import rules, generated files
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	.venv/bin/lint-imports
	$(PYTHON) -m candidates schema --check
	$(PYTHON) -m fixtures requirements --check
	$(PYTHON) -m tests.workflows

bench: setup ## Measure start-up beside kwokctl, and what the fault proxy costs
	$(PYTHON) -m tests.bench.startup
	$(PYTHON) -m tests.bench.proxy

doctor: .venv/installed ## Say what is missing on this machine
	$(PYTHON) -m clusters doctor

docs: .venv/installed ## Make the generated files again
	$(PYTHON) -m candidates schema
	$(PYTHON) -m fixtures requirements

lock: COMPILE := .venv/bin/uv pip compile --quiet --generate-hashes --no-header --no-annotate --python-version 3.11 --extra dev
lock: .venv/installed ## Resolve requirements.lock and requirements-kind.lock again
	$(PYTHON) -m pip install --quiet uv
	$(COMPILE) pyproject.toml -o requirements.lock
	$(COMPILE) --extra kind pyproject.toml -o requirements-kind.lock

clean: ## Remove .venv and caches; results and built components stay
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
