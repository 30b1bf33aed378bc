# The front door. Every target works from a fresh clone: it first installs what it needs and may.
#
#   make                     the library, static and shared           in build/gcc
#   make test                every test, compiled with gcc; on one thread, and on 1, 2 and 8 workers
#   make demo                a tour, as a program
#   make examples            the programs of examples/, to be run by hand
#   make bench               the measurements
#   make sanitize            the tests under ASan+UBSan (gcc) and under TSan (clang)
#   make sanitize-all        both, with both compilers
#   make valgrind            the unit and behaviour tests under memcheck
#   make warnings            everything, by gcc and clang, warnings are errors
#   make check-format        is all code formatted?         make format: formats it
#   make install PREFIX=/usr/local [DESTDIR=...]
#   make clean
#
# CC=clang changes the compiler, BUILD=dir the place of the build directories, and ARGS="..." is passed
# to tests/run.py: make test ARGS="--filter timer --repeat 10".

ifeq ($(origin CC),default)
CC := gcc
endif
BUILD   ?= build
PREFIX  ?= /usr/local
ARGS    ?=
# The build that is installed.
INSTALL_FROM ?= $(BUILD)/$(CC)

RUN = tests/run.py
# One committed style needs one version of the tool: the one of Debian 12, where there is a choice.
CLANG_FORMAT ?= $(shell command -v clang-format-14 || echo clang-format)

FORMATTED = $(shell find include src tests examples bench -path tests/compile -prune -o \
	-name '*.[ch]' -print 2>/dev/null)

# $(call configure,DIR,COMPILER,OPTIONS): Ninja where it is installed. A directory keeps the generator and
# the AWAKE_WERROR that it was first given.
configure = gen=; [ -f $(1)/CMakeCache.txt ] || ! command -v ninja >/dev/null || gen='-G Ninja'; \
	cmake --log-level=WARNING -S . -B $(1) $$gen -DCMAKE_C_COMPILER=$(2) $(3) >/dev/null
compile = cmake --build $(1) --parallel $(shell nproc) --target $(2)

EVERYTHING = awake_static awake_shared tests examples bench
WERROR_OPTION = $(if $(WERROR),-DAWAKE_WERROR=$(WERROR))

.PHONY: all test demo examples bench sanitize sanitize-all valgrind warnings check-format format install clean \
	sanitize-gcc-address sanitize-gcc-thread sanitize-clang-address sanitize-clang-thread \
	configured

all: configured
	@$(call compile,$(BUILD)/$(CC),awake_static awake_shared)

configured:
	@scripts/setup build
	@$(call configure,$(BUILD)/$(CC),$(CC),$(WERROR_OPTION))

test:
	@scripts/setup test
	@$(call configure,$(BUILD)/$(CC),$(CC),$(WERROR_OPTION))
	@$(call compile,$(BUILD)/$(CC),awake_static awake_shared tests examples)
	@$(RUN) --build-dir $(BUILD)/$(CC) $(ARGS)

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

# The second half runs also when the first has failures: both are wanted in one report.
sanitize:
	@rc=0; for leg in gcc-address clang-thread; do \
		$(MAKE) --no-print-directory sanitize-$$leg || rc=1; done; exit $$rc

sanitize-all:
	@rc=0; for leg in gcc-address gcc-thread clang-address clang-thread; do \
		$(MAKE) --no-print-directory sanitize-$$leg || rc=1; done; exit $$rc

# sanitize-COMPILER-SANITIZER. Not with AWAKE_WERROR: instrumentation makes gcc suspect things.
sanitize-gcc-address sanitize-gcc-thread sanitize-clang-address sanitize-clang-thread: sanitize-%:
	@scripts/setup sanitize
	@echo "== $(word 2,$(subst -, ,$*)) sanitizer, $(word 1,$(subst -, ,$*))"
	@$(call configure,$(BUILD)/$*,$(word 1,$(subst -, ,$*)),-DAWAKE_SANITIZE=$(word 2,$(subst -, ,$*)))
	@$(call compile,$(BUILD)/$*,tests examples)
	@$(RUN) --build-dir $(BUILD)/$* $(ARGS)

valgrind:
	@scripts/setup valgrind
	@$(call configure,$(BUILD)/gcc-valgrind,gcc,-DAWAKE_VALGRIND=ON)
	@$(call compile,$(BUILD)/gcc-valgrind,tests)
	@$(RUN) --build-dir $(BUILD)/gcc-valgrind --valgrind --only unit,behaviour $(ARGS)

# gcc finds some only when it optimises, and this is the build for the tests. clang finds all of them before that.
warnings:
	@scripts/setup test
	@echo "== warnings, gcc"
	@$(call configure,$(BUILD)/gcc,gcc,-DAWAKE_WERROR=ON)
	@$(call compile,$(BUILD)/gcc,$(EVERYTHING))
	@echo "== warnings, clang"
	@$(call configure,$(BUILD)/clang-warnings,clang,-DAWAKE_WERROR=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0)
	@$(call compile,$(BUILD)/clang-warnings,$(EVERYTHING))

check-format:
	@scripts/setup format
	@$(if $(FORMATTED),$(CLANG_FORMAT) --dry-run -Werror $(FORMATTED))

format:
	@scripts/setup format
	@$(if $(FORMATTED),$(CLANG_FORMAT) -i $(FORMATTED))

install:
	@scripts/setup build
	@[ -f $(INSTALL_FROM)/CMakeCache.txt ] || { $(call configure,$(INSTALL_FROM),$(CC),$(WERROR_OPTION)); }
	@$(call compile,$(INSTALL_FROM),awake_static awake_shared)
	@DESTDIR="$(DESTDIR)" cmake --install $(INSTALL_FROM) --prefix "$(abspath $(PREFIX))"

clean:
	rm -rf $(BUILD)
