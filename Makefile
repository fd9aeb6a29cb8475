# SPDX-License-Identifier: Apache-2.0
#
# The front door. Each target is one script in tools/, which says what it does;
# this file only names them. A line with two hash signs is its help.

# Given on the command line only: a stray ARGS in the environment is not meant.
PREFIX = /usr/local
ARGS =
MINUTES = 10

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.PHONY: help run test test-kernel test-conformance soak soak-io fresh peers bench bench-programs lint fmt install uninstall lock clean distclean

help: ## show this list
	@echo "usage: make TARGET"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

run: ## set up, then repeat all studies (6 minutes); ARGS="EXPERIMENT... [OPTION...]" chooses
	@tools/run.sh $(ARGS)

test: ## set up, then every test: native, sanitizers, arm64, Python
	@tools/test.sh $(ARGS)

test-kernel: ## test the module in every guest, libuthread in arm64's (two hours)
	@tools/test-kernel.sh $(ARGS)

test-conformance: ## others' tests of threads by uthread-run (an hour); ARGS="[glibc] [gnulib] [glib]"
	@tools/conformance.sh $(ARGS)

soak: ## storms of uthreads under fast ticks (10 minutes); ARGS="[SECONDS] [STORM...]"
	@tools/soak.sh $(ARGS)

soak-io: ## the example server under wrk, resets and hogs, MINUTES=10
	@MINUTES="$(MINUTES)" tools/soak_io.sh

fresh: ## both commands on a bootstrapped Debian 12, as root; ARGS="[--keep] [run] [test]"
	@tools/fresh.sh $(ARGS)

peers: ## build the same work in other thread libraries, each that is there
	@tools/packages.sh build
	@[ "$$(id -u)" -ne 0 ] || tools/packages.sh peers || true
	@tools/venv.sh run build
	@tools/compile.sh build
	@tools/wheel.sh
	@tools/peers.sh

bench: ## compare with other libraries; ARGS go to peers/bench.py
	@tools/bench.sh $(ARGS)

bench-programs: ## others' programs by uthread-run, in pairs; ARGS go to peers/programs.py
	@tools/bench_programs.sh $(ARGS)

lint: ## check formats, types, licence lines and calls between rooms
	@tools/lint.sh

fmt: ## apply the formatters
	@tools/lint.sh --fix

install: ## install libuthread and swtch into PREFIX (/usr/local)
	@tools/install.sh "$(PREFIX)"

uninstall: ## remove what install put into PREFIX
	@tools/uninstall.sh "$(PREFIX)"

lock: ## pin the Python packages anew; ARGS=--upgrade takes newer ones
	@tools/lock.sh $(ARGS)

clean: ## remove what was built
	@rm -rf build build-test build-asan build-arm64 build-bench build-programs build-conformance build-install build-wheel
	@rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find swtch tests -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## remove the Python environment too
	@rm -rf .venv .setup.lock
