# `make run` and `make test` work from a fresh clone with nothing but python3 (3.11 or newer) and make.
# Everything they create is in .boot/, .venv/, .clawsite/ and staticfiles/; deleting these starts over.

SHELL  := /bin/sh
PYTHON ?= python3
PY     := .venv/bin/python
# uv takes 20 s where pip takes 90. It is installed from the package index unless it is already there.
UV     := $(shell command -v uv 2>/dev/null || echo .boot/bin/uv)
export UV_PYTHON_DOWNLOADS := never

LOCK = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev setup-bench run test check lint format messages bench soak lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

run: setup ## set up and start Clawsite (stop with Ctrl-C)
	@.venv/bin/claw serve

.boot/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Clawsite needs Python 3.11 or newer; $(PYTHON) is older. Use another one: make run PYTHON=python3.12"; exit 1; }
	@echo "Installing uv into .boot (once) …"
	@$(PYTHON) -m venv .boot || { rm -rf .boot; \
	  echo "Python can't create virtual environments. On Debian and Ubuntu: sudo apt install python3-venv"; exit 1; }
	@.boot/bin/python -m pip install --quiet --disable-pip-version-check uv || { rm -rf .boot; \
	  echo "Could not install uv from the package index: see the message above. Is the network available?"; exit 1; }

.venv/.ready-run: requirements.txt
.venv/.ready-dev: requirements-dev.txt
.venv/.ready-bench: requirements-bench.txt
.venv/.ready-%: pyproject.toml | $(UV)
	@echo "Installing $(filter requirements%,$^) into .venv …"
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv
	@$(UV) pip install --quiet --python $(PY) --require-hashes -r $(filter requirements%,$^)
	@$(UV) pip install --quiet --python $(PY) --no-deps -e .
	@touch $@

setup: .venv/.ready-run ## install what `claw` needs into .venv
setup-dev: .venv/.ready-dev ## also install the tools for tests and checks
setup-bench: .venv/.ready-bench ## also install the queues that benchmarks compare with

test: setup-dev ## run all tests on SQLite, and those that depend on the database on PostgreSQL
	$(PY) .ci/stages.py services web journeys postgres

check: setup-dev ## run lint and all tests, and print the time of each stage
	$(PY) .ci/stages.py

lint: setup-dev ## check formatting, ruff, mypy, layers, templates and migrations
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	.venv/bin/lint-imports
	$(PY) -m clawsite.cli.main check
	.venv/bin/djangofmt --check templates
	$(PY) .ci/check_templates.py
	$(PY) .ci/package_map.py --check
	$(PY) -m clawsite.cli.main makemigrations --check --dry-run

format: setup-dev ## format the code
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	.venv/bin/djangofmt templates

# Folders without translatable strings.
UNTRANSLATED = $(foreach folder,bench docs staticfiles tests .venv .boot .clawsite,--ignore "$(folder)/*")

messages: setup-dev ## update and compile translations after changing strings (needs gettext)
	$(PY) -m clawsite.cli.main makemessages --locale zh_Hans --no-location --no-obsolete --no-wrap $(UNTRANSLATED)
	$(PY) -m clawsite.cli.main compilemessages --locale zh_Hans $(UNTRANSLATED)

bench: setup-bench ## run the benchmarks and compare the results with the targets in the docs
	$(PY) -m bench

# 300 fault rounds on each database; 20,000 command lines, 20,000 gateway connections, 10,000 REST requests, 8,000 HTTP bodies.
soak: setup-dev ## run the long fault and fuzz tests (about an hour)
	CLAWSITE_FUZZ_SEED=0 CLAWSITE_FUZZ_LINES=20000 CLAWSITE_FUZZ_FRAMES=20000 CLAWSITE_REST_EXAMPLES=400 CLAWSITE_V1_EXAMPLES=1000 $(PY) -m pytest -s tests/fuzz
	CLAWSITE_FAULT_ROUNDS=300 $(PY) -m pytest tests/faults
	CLAWSITE_FAULT_ROUNDS=300 CLAWSITE_TEST_DATABASE=postgres $(PY) -m pytest tests/faults

lock: | $(UV) ## update requirements*.txt from pyproject.toml
	$(LOCK) -o requirements.txt
	$(LOCK) --extra dev -o requirements-dev.txt
	$(LOCK) --extra dev --extra bench -o requirements-bench.txt

clean: ## delete everything the other targets created, except your data in .clawsite/
	rm -rf .boot .venv staticfiles
