# The main entry point. Every target works from a fresh clone: it first installs missing packages, if it may.
#
#   make                     build the library, static and shared, in build/gcc
#   make test                run every test, compiled with gcc, on one thread and on 8 workers
#   make test-full           the same in all variants: each driver with each flavour, 1, 2 and 8 workers
#   make quick               run a sample of the tests, in less than a minute when little has changed
#   make demo                run the tour, examples/demo.c
#   make examples            build the programs of examples/
#   make bench               run the benchmarks
#   make sanitize            run the tests under ASan+UBSan (gcc) and under TSan (clang)
#   make sanitize-all        both sanitizers, with both compilers
#   make valgrind            run the unit and behaviour tests under memcheck
#   make warnings            build everything with gcc and clang; warnings are errors (also warnings-gcc, -clang)
#   make programs            build the library, tests, examples and benchmarks
#   make check-format        check the format of all code
#   make tidy                clang-tidy over the library (.clang-tidy)
#   make format              format all code
#   make install PREFIX=/usr/local [DESTDIR=...]
#   make clean
#
# CC=clang selects the compiler, BUILD=dir the parent of the build directories. ARGS="..." is passed to
# tests/run.py: make test ARGS="--filter timer --repeat 10".

ifeq ($(origin CC),default)
CC := gcc
endif
BUILD   ?= build
PREFIX  ?= /usr/local
ARGS    ?=
# The build directory to install from.
INSTALL_FROM ?= $(BUILD)/$(CC)

RUN = tests/run.py
# Versions of clang-format differ. Prefer that of Debian 12.
CLANG_FORMAT ?= $(shell command -v clang-format-14 || echo clang-format)

FORMATTED = $(shell find include src tests examples bench -path tests/compile -prune -o \
	-name '*.[ch]' -print 2>/dev/null)

# $(call configure,DIR,COMPILER,OPTIONS) uses Ninja if it is installed. A build directory keeps the generator and
# the AWAKE_WERROR of its first configuration.
configure = gen=; [ -f $(1)/CMakeCache.txt ] || ! command -v ninja >/dev/null || gen='-G Ninja'; \
	cmake --log-level=WARNING -S . -B $(1) $$gen -DCMAKE_C_COMPILER=$(2) $(3) >/dev/null
compile = cmake --build $(1) --parallel $(shell nproc) --target $(2)

EVERYTHING = awake_static awake_shared tests examples bench
WERROR_OPTION = $(if $(WERROR),-DAWAKE_WERROR=$(WERROR))

.PHONY: all test test-full quick demo examples bench sanitize sanitize-all valgrind \
	programs warnings warnings-gcc warnings-clang check-format format tidy install clean \
	sanitize-gcc-address sanitize-gcc-thread sanitize-clang-address sanitize-clang-thread \
	configured

all: configured
	@$(call compile,$(BUILD)/$(CC),awake_static awake_shared)

programs: configured
	@$(call compile,$(BUILD)/$(CC),$(EVERYTHING))

configured:
	@scripts/setup build
	@$(call configure,$(BUILD)/$(CC),$(CC),$(WERROR_OPTION))

# The runner builds the programs that the selected tests need.
test:
	@scripts/setup test
	@$(call configure,$(BUILD)/$(CC),$(CC),$(WERROR_OPTION))
	@$(RUN) --build-dir $(BUILD)/$(CC) --make $(ARGS)

test-full:
	@$(MAKE) --no-print-directory test ARGS="--full $(ARGS)"

quick:
	@scripts/setup test
	@$(call configure,$(BUILD)/$(CC),$(CC),$(WERROR_OPTION))
	@$(RUN) --build-dir $(BUILD)/$(CC) --make --quick $(ARGS)

demo: configured
	@$(call compile,$(BUILD)/$(CC),example-demo) >$(BUILD)/demo.log 2>&1 || { cat $(BUILD)/demo.log; exit 1; }
	@printf '\n== examples/demo.c\n\n'
	@$(BUILD)/$(CC)/examples/demo
	@printf '\nRead it next to its output: examples/demo.c\n'

examples: configured
	@$(call compile,$(BUILD)/$(CC),examples)
	@echo "built in $(BUILD)/$(CC)/examples"

bench:
	@scripts/setup bench
	@$(call configure,$(BUILD)/$(CC),$(CC),$(WERROR_OPTION))
	@$(call compile,$(BUILD)/$(CC),bench)
	@python3 bench/run.py --build-dir $(BUILD)/$(CC) $(ARGS)

# All legs run even if an earlier one fails.
sanitize:
	@rc=0; for leg in gcc-address clang-thread; do \
		$(MAKE) --no-print-directory sanitize-$$leg || rc=1; done; exit $$rc

sanitize-all:
	@rc=0; for leg in gcc-address gcc-thread clang-address clang-thread; do \
		$(MAKE) --no-print-directory sanitize-$$leg || rc=1; done; exit $$rc

# sanitize-COMPILER-SANITIZER. With WERROR=ON, clang builds everything, so that its warnings cover everything. Not gcc:
# with instrumentation it prints false warnings.
sanitize-gcc-address sanitize-gcc-thread sanitize-clang-address sanitize-clang-thread: sanitize-%:
	@scripts/setup sanitize
	@echo "== $(word 2,$(subst -, ,$*)) sanitizer, $(word 1,$(subst -, ,$*))"
	@$(call configure,$(BUILD)/$*,$(word 1,$(subst -, ,$*)),-DAWAKE_SANITIZE=$(word 2,$(subst -, ,$*)) \
		$(if $(findstring clang,$*),$(WERROR_OPTION)))
	@$(if $(and $(findstring clang,$*),$(WERROR)),$(call compile,$(BUILD)/$*,$(EVERYTHING)))
	@$(RUN) --build-dir $(BUILD)/$* --make $(ARGS)

valgrind:
	@scripts/setup valgrind
	@$(call configure,$(BUILD)/gcc-valgrind,gcc,-DAWAKE_VALGRIND=ON)
	@$(call compile,$(BUILD)/gcc-valgrind,tests)
	@$(RUN) --build-dir $(BUILD)/gcc-valgrind --valgrind --only unit,behaviour $(ARGS)

# gcc prints some warnings only when it optimises; clang does not need to.
warnings: warnings-gcc warnings-clang

warnings-gcc:
	@scripts/setup test
	@echo "== warnings, gcc"
	@$(call configure,$(BUILD)/gcc-warnings,gcc,-DAWAKE_WERROR=ON -DAWAKE_TEST_LEVEL=-O1)
	@$(call compile,$(BUILD)/gcc-warnings,$(EVERYTHING))

warnings-clang:
	@scripts/setup test
	@echo "== warnings, clang"
	@$(call configure,$(BUILD)/clang-warnings,clang,-DAWAKE_WERROR=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0)
	@$(call compile,$(BUILD)/clang-warnings,$(EVERYTHING))

check-format:
	@scripts/setup format
	@$(if $(FORMATTED),$(CLANG_FORMAT) --dry-run -Werror $(FORMATTED))

format:
	@scripts/setup format
	@$(if $(FORMATTED),$(CLANG_FORMAT) -i $(FORMATTED))

tidy:
	@scripts/setup tidy
	@find src -name '*.c' | xargs -P $(shell nproc) -n 4 sh -c \
		'clang-tidy --quiet "$$@" -- -std=gnu11 -DAW_URING -Isrc -Iinclude 2>/dev/null' tidy

install:
	@scripts/setup build
	@[ -f $(INSTALL_FROM)/CMakeCache.txt ] || { $(call configure,$(INSTALL_FROM),$(CC),$(WERROR_OPTION)); }
	@$(call compile,$(INSTALL_FROM),awake_static awake_shared)
	@DESTDIR="$(DESTDIR)" cmake --install $(INSTALL_FROM) --prefix "$(abspath $(PREFIX))"

clean:
	rm -rf $(BUILD)
