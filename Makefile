# make reproduce   set everything up, run the main job, say where its page is
# make test        set everything up, run all tests
# make bench       print ratios of speed and memory; exit 1 on a missed bar
# make bench-flower  the same for real processes of Flower on this machine; takes minutes
# make golden      play the settings whose outcomes must not change, and write their hashes anew
# make lines       count the lines of code, without docstrings, comments and blanks
# make lint        ruff, mypy --strict, import-linter
# make docs        build the documentation, offline; warnings are errors
# make constraints write the versions that are installed now to constraints.txt

VENV ?= .venv
OUT ?= out
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
UV := $(shell command -v uv 2>/dev/null)
INSTALLED := $(VENV)/.installed

.PHONY: reproduce test bench bench-flower golden lines lint docs constraints

reproduce: $(INSTALLED)
	$(BIN)/fedbandits reproduce --out $(OUT)/reproduction
	@echo "open $(OUT)/reproduction/report.html in a browser"

test: $(INSTALLED)
	$(BIN)/python -m pytest -n auto --dist loadgroup

bench: $(INSTALLED)
	$(BIN)/python bench/simulator.py
	$(BIN)/python bench/federation.py
	$(BIN)/python bench/sweeps.py

bench-flower: $(INSTALLED)
	$(BIN)/python bench/federation.py --flower

golden: $(INSTALLED)
	$(BIN)/python tests/golden.py

lines: $(INSTALLED)
	$(BIN)/python bench/code_lines.py src

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(INSTALLED)
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs $(OUT)/docs
	@echo "open $(OUT)/docs/index.html in a browser"

constraints: $(INSTALLED)
ifneq ($(UV),)
	$(UV) pip freeze --python $(BIN)/python --exclude-editable > constraints.new
else
	$(BIN)/python -m pip freeze --exclude-editable > constraints.new
endif
	mv constraints.new constraints.txt

$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "fedbandits needs Python 3.11 or newer; install it or set PYTHON=..." >&2; exit 2; }
ifneq ($(UV),)
	$(UV) venv --quiet --allow-existing --python "$(PYTHON)" $(VENV)
	$(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '.[dev]'
else
	"$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
endif
	@touch $(INSTALLED)
