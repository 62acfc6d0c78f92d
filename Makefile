# Every target first makes .venv or updates it (bootstrap.sh), which takes no time if it is up to date. ARGS adds arguments.

PYTHON := .venv/bin/python
# Processes that test at once: many tests wait for other processes, so the cores have time for two more.
TESTERS = $(shell echo $$(($$(nproc) + 2)))

.DEFAULT_GOAL := help
.PHONY: help env run test coverage test-docker test-faults test-kubernetes test-metrics test-slurm test-tls soak consoles lint bench lock protocol image gpu clean

help: ## show this text
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  ARGS adds arguments: make run ARGS=--inline, make test ARGS=tests/configs"

env: ## make .venv, or update it
	@./bootstrap.sh

run: env ## train in the three-room world: slipstream train --config=three_rooms
	@.venv/bin/slipstream train --config=three_rooms $(ARGS)

PYTEST = pytest --numprocesses=$(TESTERS) --dist=loadfile --no-loadscope-reorder --durations=20 $(ARGS)

test coverage: export TF_ENABLE_ONEDNN_OPTS = 1
test coverage: export TF_CPP_MIN_LOG_LEVEL = 2
# XLA compiles twice as fast without LLVM's optimisations, and what it computes is the same.
test coverage: export XLA_FLAGS = --xla_backend_optimization_level=0
# To compile the tests takes 13 s: what one tester has compiled, the others and later runs read.
test coverage: export PYTHONDONTWRITEBYTECODE =
test: env ## all tests, of which one is lint
	@$(PYTHON) -m $(PYTEST)

# With ARGS only some tests run, so the threshold does not apply.
coverage: env ## all tests, and which lines of the code run in them or in the processes that they start; takes a quarter longer
	@$(PYTHON) -m coverage erase
	@status=0; \
	$(PYTHON) -m coverage run -m $(PYTEST) || status=$$?; \
	$(PYTHON) -m coverage combine --quiet || [ $$status -ne 0 ] || status=$$?; \
	$(PYTHON) -m coverage report $(if $(ARGS),--fail-under=0) || [ $$status -ne 0 ] || status=$$?; \
	exit $$status

test-faults: env ## the fault suite: processes, hosts and disks that fail; ARGS=network, kill or snapshot runs a part
	@$(PYTHON) -m tests.faults $(ARGS)

test-metrics: env ## Debian's Prometheus scrapes a run, which hangs, pauses and dies; needs apt-get install prometheus
	@$(PYTHON) -m tests.metrics $(ARGS)

test-kubernetes: env ## the Kubernetes manifests: rendered, validated, and their pods run by podman; ARGS=render runs a part
	@$(PYTHON) -m tests.kubernetes $(ARGS)

test-tls: env ## who may join over TLS, tried on hosts of their own; needs root, stunnel4, openssl and iptables
	@$(PYTHON) -m tests.tls

test-docker: env ## the image and the compose file on a real Docker engine; ARGS=--list shows the cases
	@$(PYTHON) -m tests.docker_runs $(ARGS)

test-slurm: env ## the files of docker/slurm on a real Slurm of three nodes on this machine; names what is missing
	@$(PYTHON) -m tests.slurm $(ARGS)

soak: env ## a run whose processes are killed every two minutes, and a picture of its memory; MINUTES=30
	@$(PYTHON) -m tests.faults.soak --minutes=$(or $(MINUTES),30) $(ARGS)

consoles: env ## a run with 21 consoles, some of which are killed, and a picture of its memory; MINUTES=15, ARGS=hosts on five hosts
	@$(PYTHON) -m tests.console_runs --minutes=$(or $(MINUTES),15) $(ARGS)

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
	@$(COMPILE) pyproject.toml --extra worlds --constraint requirements.lock --no-emit-package tensorflow --output-file requirements-image.lock
	@$(COMPILE) --group cpu --no-deps --output-file requirements-cpu.lock
	@$(COMPILE) --group sbom --output-file requirements-sbom.lock
	@$(COMPILE) --group console --constraint requirements.lock --output-file requirements-console.lock

# protoc of this version makes code that the locked protobuf reads. The first line of its code tells which protocol it was made from.
protocol: env ## make the consoles' generated code again from consoles/console.proto
	@.venv/bin/uv run --quiet --no-project --isolated --python $(PYTHON) --with grpcio-tools==1.48.2 --with 'setuptools<81' \
	  python -W ignore -m grpc_tools.protoc --proto_path=. --python_out=. --grpc_python_out=. consoles/console.proto
	@sed -i "1i # Made by 'make protocol' from console.proto, sha256 $$(sha256sum consoles/console.proto | cut -c-64)." consoles/console_pb2.py

image: ## build the image slipstream:cpu, or with TARGET=gpu slipstream:gpu
	@docker build --file=docker/Dockerfile --target=$(or $(TARGET),cpu) --tag=slipstream:$(or $(TARGET),cpu) $(ARGS) .

gpu: env ## add the CUDA libraries that TensorFlow loads, for a machine with an NVIDIA GPU (slipstream doctor says what it finds)
	@.venv/bin/uv pip install --quiet --python $(PYTHON) --require-hashes -r requirements-gpu.lock

clean: ## remove what the other targets made, except .venv and runs/
	@rm -rf build dist *.egg-info MUJOCO_LOG.TXT .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -path ./.venv -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
