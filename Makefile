# Everything runs from a clean clone with Python 3.11+ and make; the environment is made on first use.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow lint bench clean

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

test: .venv/installed-test
	$(BIN)/python -m pytest -m 'not slow' -n 2

test-slow: .venv/installed-test
	$(BIN)/python -m pytest -m slow -n 2

lint: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/installed-test
	$(BIN)/python -m benchmarks.run

clean:
	rm -rf .venv .venv-bench build *.egg-info
