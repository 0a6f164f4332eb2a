# SPDX-License-Identifier: Apache-2.0
#
# One command for each chore. CMake does the building (CMakePresets.json); this file only gives names to frequent tasks.
# A chore installs nothing: it lists what is missing and stops (tools/build/setup.sh). `make deps` installs; `make demo` and `make check` do
# so too, and say it first.

PREFIX ?= /usr/local
FOR ?= build
FUZZ_SECONDS ?= 60
JOBS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
export FUZZ_SECONDS JOBS

.DEFAULT_GOAL := build
.PHONY: build deps demo test check asan tsan cross fuzz prove mutate crash bench coverage format packages amalgamation release js web install ports windows clean help

build: ## build the library, the command and the examples in build/release
	@tools/build/setup.sh build
	@tools/build/page.sh
	@tools/build/build.sh release

deps: ## install what `make` needs; FOR="test bench" what these goals need
	@for goal in $(FOR); do tools/build/setup.sh --install $$goal || exit; done

demo: ## install what is missing, build, write a model of 500 MB into build/demo, and show what the command does with it
	@echo 'make demo first installs what is missing to build; make alone installs nothing.'
	@tools/build/setup.sh --install build
	@$(MAKE) --no-print-directory build
	@tools/build/demo.sh build/release

test: ## the quick test run: gcc, unit tests, vectors, structure; needs only cmocka, git and Python besides the build's tools
	@tools/build/setup.sh test
	@tools/build/build.sh check-gcc
	@tools/check/ctest.sh check-gcc
	@python3 tools/check/check_structure.py --build build/check-gcc

check: ## the test run, about 45 minutes and up to 7 GB of tools; stops at the first stage that fails; FULL=1: every stage
	@tools/check/check.sh

asan: ## the unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/build/setup.sh test
	@tools/build/build.sh asan
	@tools/check/ctest.sh asan

tsan: ## the unit tests under ThreadSanitizer
	@tools/build/setup.sh test
	@tools/build/build.sh tsan
	@tools/check/ctest.sh tsan

cross: ## the unit tests on a big-endian, a 32-bit and an Arm machine, emulated by qemu
	@tools/build/setup.sh cross
	@tools/check/cross.sh

ports: ## the library and the command compiled for other systems, and the unit tests of those that run here
	@tools/build/setup.sh ports
	@tools/check/ports.sh

windows: ## the library, the command and the unit tests compiled for Windows, and run by Wine; 4 minutes on one processor
	@tools/build/setup.sh windows
	@tools/check/ports.sh windows

fuzz: ## every fuzz target for FUZZ_SECONDS (60)
	@tools/build/setup.sh fuzz
	@tools/build/build.sh fuzz
	@tools/assurance/fuzz.sh

prove: ## show with Frama-C that src/core and src/format have no undefined behaviour for bounded inputs (proofs/README.md)
	@tools/build/setup.sh prove
	@tools/assurance/prove.sh --self-test
	@tools/assurance/prove.sh

mutate: ## which changes of single tokens in src/core and src/format the unit tests and vectors miss (tests/mutants.md); takes hours
	@tools/build/setup.sh mutate
	@tools/assurance/mutate.py --self-test
	@tools/assurance/mutate.py

crash: ## what kills, failures and power cuts leave, on ext4, XFS, Btrfs and tmpfs; mounts loop images, so best as root
	@tools/build/setup.sh crash
	@tools/build/build.sh check-gcc
	@tools/assurance/crash.py --self-test
	@tools/assurance/crash.py

bench: ## every benchmark
	@tools/build/setup.sh bench
	@tools/build/build.sh release
	@tools/assurance/bench.sh

coverage: ## the unit tests, and which lines they reach: build/coverage/html/index.html
	@tools/build/setup.sh coverage
	@tools/build/build.sh coverage
	@tools/check/coverage.sh

format: ## format every C and C++ file
	@tools/build/setup.sh format
	@git ls-files -z --cached --others --exclude-standard -- '*.c' '*.h' '*.cpp' '*.hpp' | xargs -0 clang-format -i

packages: ## Debian packages: build/debian/packages
	@tools/build/setup.sh build
	@tools/build/page.sh
	@tools/build/build.sh debian
	@cd build/debian && cpack

release: ## all that a release consists of, reproducibly: dist (packaging/README.md)
	@tools/build/setup.sh release
	@tools/build/page.sh
	@tools/build/build.sh release
	@tools/release/release.sh

amalgamation: ## the library as one file: build/amalgamation/coffer.c, and its header
	@tools/build/setup.sh amalgamation
	@tools/build/amalgamate.py build/amalgamation

js: build ## the JavaScript package: bindings/js/dist, linted and tested
	@tools/build/setup.sh js
	@tools/build/js.sh check

web: ## the page that shows what is in a file: build/web/index.html
	@tools/build/setup.sh web
	@tools/build/web.sh build

install: build ## install under PREFIX (/usr/local), staged in DESTDIR
	@rm -f build/release/install_manifest.txt
	@cmake --install build/release --prefix "$(PREFIX)"
	@tools/build/after_install.sh "$(PREFIX)"

clean: ## remove what was built; .venv stays
	@rm -rf build bindings/js/build bindings/js/dist

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 12
