# Everything runs from a clean clone with Python 3.11+ and make; the environment is made on first use.
PYTHON ?= python3
BIN := .venv/bin

ENGINES := .venv-engines/bin

.PHONY: demo test test-slow test-engines lint bench clean

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/installed-test: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

demo: .venv/installed
	$(BIN)/python examples/arithmetic-grpo/demo.py
	$(BIN)/python examples/human-audit/demo.py

test: .venv/installed-test
	$(BIN)/python -m pytest -m 'not slow and not engines' -n 2

test-slow: .venv/installed-test
	$(BIN)/python -m pytest -m slow -n 2

# Torch, vLLM and a trainer on CPU; an environment of its own, for they are large and pin much.
.venv-engines/installed: pyproject.toml tests/real_engines/requirements.txt
	$(PYTHON) -m venv .venv-engines
	$(ENGINES)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(ENGINES)/python -m pip install --quiet --disable-pip-version-check -r tests/real_engines/requirements.txt
	$(ENGINES)/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(ENGINES)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

test-engines: .venv-engines/installed
	$(ENGINES)/python -m pytest -m engines tests/real_engines

lint: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/installed-test .venv-engines/installed
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.agreement
	OMP_NUM_THREADS=1 VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1 $(ENGINES)/python -m benchmarks.engines

clean:
	rm -rf .venv .venv-bench .venv-engines build *.egg-info
