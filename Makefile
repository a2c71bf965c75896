# `make help` lists the commands. All of them run in .venv, which is created at first use.

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || echo python3)
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= auto
RELAXED := ./packages/open-hypergraphs
NODE_PACKAGES := tests/scratch/node_modules/.installed tests/typescript/node_modules/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test test-long browser check fuzz bench golden docs figures format release clean

help:  ## list the commands
	@grep -E '^[a-z-]+: .*##|^[a-z-]+:  ##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 12

demo: $(VENV)/demo  ## install and train on Fisher's irises, with a picture (no PyTorch; a minute)
	$(BIN)/python -m catgrad.examples.iris dense --plot out/iris.png

test: $(VENV)/dev $(NODE_PACKAGES)  ## install the test dependencies and run the tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-long: $(VENV)/ggml $(NODE_PACKAGES) tests/webgpu/node_modules/.installed  ## run the tests that repeat others, on slow targets and in other combinations
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m long

browser: $(VENV)/dev tests/browser/node_modules/.installed tests/vite/node_modules/.installed  ## run projects in Scratch's editor, and modules in pages (needs chromium)
	@if ! command -v chromium && [ "$$(id -u)" = 0 ] && command -v apt-get; then \
	apt-get update -qq && apt-get install -y -qq chromium; fi >/dev/null
	$(BIN)/python -m pytest -m browser tests/browser

check: $(VENV)/dev  ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

SECONDS ?= 60
fuzz: $(VENV)/dev  ## compare targets on random programs for SECONDS seconds; prints seeds
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --seconds $(SECONDS)

bench: $(VENV)/dev tests/scratch/node_modules/.installed  ## measure speed against named peers; prints tables, keeps JSON, writes a page
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.compiler.core --keep
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.compiler.training --keep
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.c.kernels --keep
	$(BIN)/python -m benchmarks.cpu --keep
	$(BIN)/python -m benchmarks.c.products --keep
	$(BIN)/python -m benchmarks.c.functions --keep
	$(BIN)/python -m benchmarks.ggml --keep
	$(BIN)/python -m benchmarks.browser --keep
	CATGRAD_SCRATCH=tests/scratch $(BIN)/python -m benchmarks.scratch --keep
	$(BIN)/python -m benchmarks.figures

golden: $(VENV)/dev  ## accept the emitted source as the new golden files
	$(BIN)/python -m pytest -q tests/unit tests/conformance/test_scratch_tokenizers.py \
	-k "golden or the_tour or text_of_a_tokenizer" --update-golden

docs: $(VENV)/dev  ## build the documentation into site/, and follow its links
	$(BIN)/zensical build --strict --clean
	$(BIN)/python -m tools.build_gallery site/playground
	$(BIN)/python -m tools.check_links site

figures: $(VENV)/dev tests/browser/node_modules/.installed  ## redraw the figures of the docs (needs graphviz, chromium)
	$(BIN)/catgrad draw catgrad.examples.iris:linear -o docs/images/linear.svg
	$(BIN)/catgrad draw catgrad.examples.iris:dense -o docs/images/dense.svg
	$(BIN)/python -m catgrad.examples.iris hidden --plot docs/images/iris.png
	$(BIN)/python -m tests.browser.demo docs/images/scratch.png
	$(BIN)/python -m tests.browser.playground docs/images/playground.png
	$(BIN)/python -m benchmarks.c.memory --plot docs/images/memory.png

release: $(VENV)/dev  ## build the distributions into dist/, with open-hypergraphs for any NumPy, and check them
	rm -rf dist packages/*/dist
	$(BIN)/uv build --quiet --out-dir dist
	$(BIN)/uv build --quiet --wheel --out-dir dist packages/open-hypergraphs
	$(BIN)/twine check --strict dist/*

format: $(VENV)/dev  ## format, and fix what can be fixed automatically
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove everything made by these commands
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build site *.egg-info tests/*/node_modules

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo: pyproject.toml setup.py | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(RELAXED) -e '.[plot]'
	@touch $@

$(VENV)/dev: pyproject.toml setup.py | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/demo

$(VENV)/ggml: $(VENV)/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,ggml]'
	@touch $@

tests/%/node_modules/.installed: tests/%/package-lock.json
	@if command -v npm >/dev/null; then npm ci --prefix tests/$* --ignore-scripts --silent && touch $@; \
	else echo "there is no npm: what needs the packages of tests/$* is skipped"; fi
