# Every target first makes .venv or updates it (bootstrap.sh), which takes no time if it is up to date. ARGS adds arguments.

PYTHON := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help env run test lint bench lock gpu clean

help: ## show this text
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  ARGS adds arguments: make run ARGS=--inline, make test ARGS=tests/configs"

env: ## make .venv, or update it
	@./bootstrap.sh

run: env ## train in the three-room world: slipstream train --config=three_rooms
	@.venv/bin/slipstream train --config=three_rooms $(ARGS)

# With ARGS only some tests run, so the threshold for coverage does not apply.
test: export TF_ENABLE_ONEDNN_OPTS = 1
test: export TF_CPP_MIN_LOG_LEVEL = 2
test: lint ## lint, then all tests, with coverage of all processes that they start
	@$(PYTHON) -m coverage erase
	@status=0; \
	$(PYTHON) -m coverage run -m pytest --numprocesses=auto --dist=loadfile --no-loadscope-reorder $(ARGS) || status=$$?; \
	$(PYTHON) -m coverage combine --quiet || [ $$status -ne 0 ] || status=$$?; \
	$(PYTHON) -m coverage report $(if $(ARGS),--fail-under=0) || [ $$status -ne 0 ] || status=$$?; \
	exit $$status

lint: env ## style, format, types and the direction of imports
	@$(PYTHON) -m ruff check
	@$(PYTHON) -m ruff format --check
	@$(PYTHON) -m mypy
	@.venv/bin/lint-imports --no-logo

bench: env ## the benchmarks
	@$(PYTHON) -m benchmarks $(ARGS)

COMPILE = .venv/bin/uv pip compile --quiet --generate-hashes --python-version 3.10 --python-platform x86_64-manylinux_2_28 \
	--custom-compile-command "make lock" $(ARGS)

lock: env ## write the locks again from pyproject.toml; ARGS=--upgrade takes the latest versions
	@$(COMPILE) pyproject.toml --all-extras --output-file requirements.lock
	@$(COMPILE) --group gpu --output-file requirements-gpu.lock

gpu: env ## add the CUDA libraries that TensorFlow loads, for a machine with an NVIDIA GPU (slipstream doctor says what it finds)
	@.venv/bin/uv pip install --quiet --python $(PYTHON) --require-hashes -r requirements-gpu.lock

clean: ## remove what the other targets made, except .venv and runs/
	@rm -rf build dist *.egg-info MUJOCO_LOG.TXT .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -path ./.venv -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
