# Every target makes .venv first (bootstrap.sh), which takes no time once it is there. ARGS adds arguments.

PYTHON := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help env run test lint bench lock gpu clean

help: ## show this text
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  ARGS adds arguments: make run ARGS=--inline, make test ARGS=tests/configs"

env: ## make .venv, or bring it up to date
	@./bootstrap.sh

run: env ## train on the three-room world: slipstream train --config=three_rooms
	@.venv/bin/slipstream train --config=three_rooms $(ARGS)

# A part of the tests covers a part of the code: with ARGS the threshold does not hold.
test: export TF_ENABLE_ONEDNN_OPTS = 1
test: export TF_CPP_MIN_LOG_LEVEL = 2
test: lint ## lint, then all tests, with coverage of the rooms and of every process they start
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

lock: env ## write the locks anew from pyproject.toml; ARGS=--upgrade takes the latest versions
	@$(COMPILE) pyproject.toml --all-extras --output-file requirements.lock
	@$(COMPILE) --group gpu --output-file requirements-gpu.lock

gpu: env ## add the CUDA libraries that TensorFlow loads, for a machine with an NVIDIA GPU (slipstream doctor says what it finds)
	@.venv/bin/uv pip install --quiet --python $(PYTHON) --require-hashes -r requirements-gpu.lock

clean: ## remove what the other targets left, except .venv and runs/
	@rm -rf build dist *.egg-info MUJOCO_LOG.TXT .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -path ./.venv -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
