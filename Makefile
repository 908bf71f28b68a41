# make reproduce   set up what the main job needs, run it, say where its page is
# make setup       set everything up
# make test        set everything up, run all tests but those that take minutes
# make test-slow   run the tests that take minutes and many processes
# make bench       print ratios of speed and memory; exit 1 on a missed bar
# make bench-flower  the same for real processes of Flower on this machine; takes minutes
# make golden      play the settings whose outcomes must not change, and write their hashes anew
# make lines       count the lines of code, without docstrings, comments and blanks
# make lint        ruff, mypy --strict, import-linter
# make docs        build the documentation, offline; warnings are errors
# make dist        build the wheel and the sdist into $(OUT)/dist
# make test-dist   test the wheel in an empty environment; takes minutes
# make constraints write the versions that are installed now to constraints.txt
#
# All use one environment, .venv. `make reproduce` installs the extra "report" into it, everything else adds
# the extra "dev". Both repeat safely, also after an installation that was interrupted.

VENV ?= .venv
OUT ?= out
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
UV := $(shell command -v uv 2>/dev/null)
REPORT := $(VENV)/.installed-report
DEV := $(VENV)/.installed-dev
# Modules are compiled once, and not again by each of the processes that tests start, whatever is set outside.
export PYTHONDONTWRITEBYTECODE :=
# Tests of one file run in one process, and share what is made for them; conftest.py says which files begin.
ALL_CORES := -n auto --dist loadfile --no-loadscope-reorder

.PHONY: setup reproduce test test-slow bench bench-flower golden lines lint docs dist test-dist constraints

setup: $(DEV)

reproduce: $(REPORT)
	$(BIN)/fedbandits reproduce --out $(OUT)/reproduction
	@echo "open $(OUT)/reproduction/report.html in a browser"

test: $(DEV)
	$(BIN)/python -m pytest $(ALL_CORES) -m "not slow"

test-slow: $(DEV)
	$(BIN)/python -m pytest $(ALL_CORES) -m slow

bench: $(DEV)
	$(BIN)/python bench/simulator.py
	$(BIN)/python bench/federation.py
	$(BIN)/python bench/live_page.py
	$(BIN)/python bench/laboratory.py
	$(BIN)/python bench/sweeps.py

bench-flower: $(DEV)
	$(BIN)/python bench/federation.py --flower

golden: $(DEV)
	$(BIN)/python tests/golden.py

lines: $(DEV)
	$(BIN)/python bench/code_lines.py src

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(DEV)
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs $(OUT)/docs
	@echo "open $(OUT)/docs/index.html in a browser"

dist: $(DEV)
	rm -rf $(OUT)/dist
	$(BIN)/python -m build --installer $(if $(UV),uv,pip) --outdir $(OUT)/dist

test-dist: $(DEV)
	$(BIN)/python -m pytest tests/test_distribution.py

constraints: $(DEV)
ifneq ($(UV),)
	$(UV) pip freeze --python $(BIN)/python --exclude-editable > constraints.new
else
	$(BIN)/python -m pip freeze --exclude-editable > constraints.new
endif
	mv constraints.new constraints.txt

# Packages, and what to say before: a pause without a word looks like a fault.
define install
@test -n "$(PYTHON)" || { echo "fedbandits needs Python 3.11 or newer; install it or set PYTHON=..." >&2; exit 2; }
@echo "installing fedbandits[$(1)] into $(VENV): $(2)"
$(if $(UV),\
$(UV) venv --quiet --allow-existing --python "$(PYTHON)" $(VENV) && \
$(UV) pip install --python $(BIN)/python --constraint constraints.txt --editable '.[$(1)]',\
"$(PYTHON)" -m venv $(VENV) && \
{ { $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv && \
$(BIN)/uv pip install --system-certs --python $(BIN)/python --constraint constraints.txt --editable '.[$(1)]'; } || \
{ echo "uv cannot install it here; with pip it takes longer" && \
$(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable '.[$(1)]'; }; })
endef

$(REPORT): pyproject.toml constraints.txt
	$(call install,report,about 400 MB and a minute)
	@touch $@

$(DEV): pyproject.toml constraints.txt
	$(call install,dev,about 1.7 GB and three minutes)
	@touch $(REPORT) $@
