# `make run` and `make test` work from a fresh clone with nothing but python3 (3.11 or newer) and make.
# Everything they make is in .boot/, .venv/, .clawsite/ and staticfiles/; deleting these starts over.

SHELL  := /bin/sh
PYTHON ?= python3
PY     := .venv/bin/python
# uv installs in 20 s what takes pip 90; it comes from the package index unless it is there already.
UV     := $(shell command -v uv 2>/dev/null || echo .boot/bin/uv)
export UV_PYTHON_DOWNLOADS := never

LOCK = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev setup-bench run test check lint format messages bench soak lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

run: setup ## set up and start Clawsite (Ctrl-C stops it)
	@.venv/bin/claw serve

.boot/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Clawsite needs Python 3.11 or newer; $(PYTHON) is not. Name another one: make run PYTHON=python3.12"; exit 1; }
	@echo "Installing uv into .boot (once) …"
	@$(PYTHON) -m venv .boot || { rm -rf .boot; \
	  echo "Python cannot make virtual environments. On Debian and Ubuntu: sudo apt install python3-venv"; exit 1; }
	@.boot/bin/python -m pip install --quiet --disable-pip-version-check uv || { rm -rf .boot; \
	  echo "Could not install uv from the package index: see the message above. Is there a network?"; exit 1; }

.venv/.ready-run: requirements.txt
.venv/.ready-dev: requirements-dev.txt
.venv/.ready-bench: requirements-bench.txt
.venv/.ready-%: pyproject.toml | $(UV)
	@echo "Installing $(filter requirements%,$^) into .venv (when it changes) …"
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv
	@$(UV) pip install --quiet --python $(PY) --require-hashes -r $(filter requirements%,$^)
	@$(UV) pip install --quiet --python $(PY) --no-deps -e .
	@touch $@

setup: .venv/.ready-run ## install what `claw` needs into .venv
setup-dev: .venv/.ready-dev ## the same and the tools for tests and checks
setup-bench: .venv/.ready-bench ## the same and the queues we compare with

test: setup-dev ## set up and run all tests on SQLite, and on PostgreSQL those that depend on the database
	$(PY) .ci/stages.py services web journeys postgres

check: setup-dev ## lint and all tests, with the time each stage took
	$(PY) .ci/stages.py

lint: setup-dev ## formatting, ruff, mypy, layers, templates, missing migrations
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	.venv/bin/lint-imports
	$(PY) -m clawsite.cli.main check
	.venv/bin/djangofmt --check templates
	$(PY) .ci/check_templates.py
	$(PY) .ci/package_map.py --check
	$(PY) -m clawsite.cli.main makemigrations --check --dry-run

format: setup-dev ## rewrite the code in our format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	.venv/bin/djangofmt templates

# Not all of the tree has words for people, and some of it is not ours.
NO_WORDS = $(foreach folder,bench docs staticfiles tests .venv .boot .clawsite,--ignore "$(folder)/*")

messages: setup-dev ## renew and compile the translations, after a string was added (needs gettext)
	$(PY) -m clawsite.cli.main makemessages --locale zh_Hans --no-location --no-obsolete --no-wrap $(NO_WORDS)
	$(PY) -m clawsite.cli.main compilemessages --locale zh_Hans $(NO_WORDS)

bench: setup-bench ## measure, and compare with the promises
	$(PY) -m bench

soak: setup-dev ## hundreds of fault rounds on each database, 20,000 lines at the exec gate and 20,000 talks with the gateway, 10,000 REST requests, 8,000 bodies for /v1 and webhooks (an hour or so)
	CLAWSITE_FUZZ_SEED=0 CLAWSITE_FUZZ_LINES=20000 CLAWSITE_FUZZ_FRAMES=20000 CLAWSITE_REST_EXAMPLES=400 CLAWSITE_V1_EXAMPLES=1000 $(PY) -m pytest -s tests/fuzz
	CLAWSITE_FAULT_ROUNDS=300 $(PY) -m pytest tests/faults
	CLAWSITE_FAULT_ROUNDS=300 CLAWSITE_TEST_DATABASE=postgres $(PY) -m pytest tests/faults

lock: | $(UV) ## renew requirements*.txt from pyproject.toml
	$(LOCK) -o requirements.txt
	$(LOCK) --extra dev -o requirements-dev.txt
	$(LOCK) --extra dev --extra bench -o requirements-bench.txt

clean: ## delete what the other targets made, except your data in .clawsite/
	rm -rf .boot .venv staticfiles
