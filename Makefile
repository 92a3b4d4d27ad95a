# Every target is one line that calls Python and sets up what it needs first. PYTHON: any Python >= 3.11.
PYTHON ?= python3
PY := .venv/bin/python
.DEFAULT_GOAL := help
.PHONY: help check test test-slow crash demo bench bench-evidence docs lab-up lab-down

help: ## this list
	@$(PYTHON) -c 'import re; [print(f"make {a:<14} {b}") for a, b in re.findall(r"^([\w-]+):.*?## (.+)", open("Makefile").read(), re.M)]'

check: ## formatting, lint, types, import order, docstrings and sizes
	@$(PYTHON) -m deploy.setup venv && $(PY) -m deploy.setup.check

test: ## all but the long tests: those of the lab in one process, those on single servers or none beside it
	@$(PYTHON) -m deploy.setup test-deps && $(PY) -m pytest -n 2

test-slow: ## the long ones on the lab: scripts of every kind, the whole grace, spares that fail, frozen machines, NodeSets
	@$(PYTHON) -m deploy.setup test-deps && $(PY) -m pytest -m slow

crash: ## kill -9 of the controller at the mutating steps of its plans, on the lab
	@$(PYTHON) -m deploy.setup test-deps && $(PY) -m pytest -m sigkill tests/sigkill

demo: ## the main job: an XID line, a drain, a requeue, a spare in, the job computing again
	@$(PYTHON) -m deploy.setup all && $(PY) -m deploy.lab.demo

bench: ## latency and throughput, each beside its floor
	@$(PYTHON) -m deploy.setup all && $(PY) -m tests.bench

bench-evidence: ## a labelled trace of 10,000 node-days through the whole service: what was acted on, missed, wrong
	@$(PYTHON) -m deploy.setup venv && $(PY) -m tests.evidence

docs: ## write runbooks/reference from settings, commands and metrics
	@$(PYTHON) -m deploy.setup venv && $(PY) -m deploy.docs

lab-up: ## bring the lab up and leave it running
	@$(PYTHON) -m deploy.setup all && $(PY) -m deploy.lab up

lab-down: ## end the lab
	@$(PYTHON) -m deploy.setup venv && $(PY) -m deploy.lab down
