# A thin front of CMake. `make` sets up what is missing and builds build/vernier; every step is skipped when it is satisfied.
#
#   make            build/vernier          make lint       layers, format, clang-tidy, text rules
#   make demo       judge a real model     make asan       tests under AddressSanitizer and UBSan
#   make test       all quick tests        make coverage   line coverage by room
#   make test-full  the long tier          make bench      ratios against other tools
#   make setup      packages only          make install    PREFIX=/usr/local, DESTDIR=
#   make clean      removes the build folders (not .venv, not .cache)

PREFIX ?= /usr/local
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
PY := .venv/bin/python
GENERATOR = $(shell command -v ninja >/dev/null 2>&1 && echo Ninja || echo 'Unix Makefiles')
PYTEST := $(PY) -m pytest -q
unexport VIRTUAL_ENV

DEMO_MODEL := rapidocr-rec
DEMO_BACKENDS := -b ort -b openvino -b mutant,operands=tf32-rna

.PHONY: all setup build demo test test-full bench lint asan coverage install clean
all: build

setup:
	@tools/setup

# $(call compile,PRESET,FOLDER): configures once (CMake configures again by itself when its files change), then builds.
define compile
@[ -f $(2)/CMakeCache.txt ] || { mkdir -p $(2); cmake --preset $(1) -G "$(GENERATOR)" >$(2)/configure.log 2>&1; } \
  || { cat $(2)/configure.log; rm -f $(2)/CMakeCache.txt; exit 1; }
@cmake --build $(2) --parallel $(JOBS) $(3)
endef

build: setup
	$(call compile,release,build)

# Exit 0: all pass; 1: something fails (the mutant always does); 3: something could not be decided. Each is a finished demo.
demo: setup
	$(call compile,release,build,--target app)
	@model=$$(tools/models get $(DEMO_MODEL)) || exit 1; rm -f build/demo.json; \
	echo "vernier check $$(basename $$model) $(DEMO_BACKENDS) --seed 1 --shape x=1x3x48x320 --json build/demo.json"; \
	status=0; build/vernier check "$$model" $(DEMO_BACKENDS) --seed 1 --shape x=1x3x48x320 --json build/demo.json || status=$$?; \
	case $$status in 0|1|3) ;; *) echo "demo: vernier ended with exit status $$status" >&2; exit 1;; esac; \
	[ -s build/demo.json ] || { echo "demo: build/demo.json was not written" >&2; exit 1; }; \
	echo "report    build/demo.json"

# Both runners run, whatever the first one says.
test: build
	@status=0; ctest --test-dir build --output-on-failure --no-tests=error -j2 || status=$$?; \
	$(PYTEST) tests || status=$$?; exit $$status

test-full: build
	@tools/setup --all
	@status=0; VERNIER_FULL=1 ctest --test-dir build --output-on-failure --no-tests=error -j2 || status=$$?; \
	VERNIER_FULL=1 $(PYTEST) tests || status=$$?; exit $$status
	@tools/setup --lint
	@tools/lint --deep

bench: build
	@tools/setup --bench
	@cmake --build build --target benchmarks --parallel $(JOBS)
	@$(PY) bench/run.py

lint: build
	@tools/setup --lint
	@tools/lint

asan: setup
	$(call compile,asan,build-asan)
	@ctest --test-dir build-asan --output-on-failure --no-tests=error -j2

coverage: setup
	$(call compile,coverage,build-coverage)
	@find build-coverage -name '*.gcda' -delete
	@ctest --test-dir build-coverage --output-on-failure --no-tests=error -j2
	@$(PY) tools/coverage build-coverage

install: build
	@cmake --install build --prefix "$(PREFIX)"

clean:
	@rm -rf build build-asan build-coverage
