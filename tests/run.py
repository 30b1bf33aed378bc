#!/usr/bin/env python3
"""Runs the tests in parallel, each in its own process with a time limit.

    tests/run.py --build-dir build/gcc                   the tests that every change must pass
    tests/run.py --build-dir build/gcc --full            all pairs of driver and flavour, 1, 2 and 8 workers
    tests/run.py --build-dir build/gcc --quick           a sample that takes less than a minute
    tests/run.py --build-dir build/gcc --only unit       one or more suites (see SUITES)
    tests/run.py --build-dir build/gcc --filter REGEX    the tests with a matching name
    tests/run.py --build-dir build/gcc --make ...        first builds the programs that the selected tests need

CONTRIBUTING.md describes how each kind of test is written. The last line is `N passed, N failed`, followed by
`, N skipped` if some were.
"""

import argparse
import collections
import concurrent.futures
import copy
import functools
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from runner.compile import compile_tests, header_tests
from runner.cross import cross_tests, fiber_programs
from runner.debugger import debugger_tests
from runner.expected import Expected, check_text
from runner.install import Stage, install_tests, readme_tests
from runner.layers import layer_tests
from runner.peers import peer_tests
from runner.process import (DEFAULT_LIMIT, DRIVERS, ROOT, Batch, Failed, Skipped, Test, TooSlow, describe, execute,
                            join_text, kill_running, must_run)

# "portable": the fiber tests with a library that switches stacks by ucontext.
PROGRAM_SUITES = ["unit", "behaviour", "stress", "torture", "model", "portable"]
# Repeat tests of unit, behaviour, stress and torture. The runtimes that they create have this number of workers.
WORKERS = {f"workers-{n}": {"AWAKE_FLAVOUR": "multi", "AWAKE_WORKERS": str(n)} for n in (1, 2, 8)}
# Suffixes that tests/support/workers.h appends to test names, one for each flavour.
FLAVOURS = ["_on_the_current_thread", "_on_1_worker", "_on_2_workers", "_on_8_workers", "_on_one_thread",
            "_with_workers", "_with_a_thread_per_core"]
# Names of I/O tests contain their driver. These tests select the flavour as well.
BY_DRIVER = re.compile(f"_by_({'|'.join(DRIVERS)})(?:_|$)")
# Tests of the sources, not of the running library. They run once, without sanitizers.
SOURCE_SUITES = ["compile", "headers", "coverage", "layers", "install", "readme", "cross", "debugger"]
# "no-uring": repeats I/O tests with io_uring forbidden by a seccomp policy.
SUITES = PROGRAM_SUITES + list(WORKERS) + ["examples", "peers", "no-uring"] + SOURCE_SUITES

# Suites that do not run under a sanitizer or valgrind unless they are named. The interleaver of model is one thread,
# and detects races itself. One worker races only with the thread in block_on, and eight workers show the races of two.
# ASan finds errors on workers in the tests that create workers themselves.
LEFT_OUT = {
    "": [],
    "address": SOURCE_SUITES + ["model", "no-uring", "workers-1", "workers-2", "workers-8"],
    "thread": SOURCE_SUITES + ["model", "no-uring", "workers-1", "workers-2"],
    "valgrind": SOURCE_SUITES + ["model", "no-uring"] + list(WORKERS),
}

# The variants of a test that run without --full: pairs of driver and flavour of an I/O test, flavours of other tests.
# Every test runs: see is_chosen. AddressSanitizer needs no second driver for a flavour, ThreadSanitizer needs threads.
ALL_FLAVOURS = {(None, flavour) for flavour in FLAVOURS}
VARIANTS = {
    "": ALL_FLAVOURS | {("uring", ""), ("uring", "_with_a_thread_per_core"), ("uring", "_on_8_workers"),
                        ("epoll", "_on_8_workers"), ("poll", "")},
    "address": {("uring", ""), ("epoll", "_on_8_workers"), (None, "_on_the_current_thread"),
                (None, "_on_one_thread"), (None, "_on_8_workers"), (None, "_with_workers")},
    "thread": {("uring", "_on_8_workers"), ("epoll", "_on_8_workers"), (None, "_on_8_workers"),
               (None, "_with_workers"), (None, "_with_a_thread_per_core")},
}
# The tests of peers have other flavours.
VARIANTS["address"] |= {("uring", "_on_one_thread"), ("epoll", "_on_2_workers")}
VARIANTS["thread"] |= {("uring", "_on_2_workers"), ("epoll", "_on_2_workers")}
VARIANTS["valgrind"] = VARIANTS["address"]
# Suites that need --full. Tests that create their own workers cover 1 and 2. The other tests are repeated with 8, which
# finds most errors. Portable stack switching is tested without sanitizers.
FULL_ONLY = {"": ["workers-1", "workers-2"]}
FULL_ONLY["address"] = FULL_ONLY["thread"] = FULL_ONLY["valgrind"] = FULL_ONLY[""] + ["portable"]
# Tests that need --full. They prove that each memory order matters to the other models, which always run.
ORDERS = re.compile("^model/[^/]+/the_orders?_")
# With io_uring forbidden: tests that the fallback is used, and that programs work with it.
NO_URING_SAMPLE = re.compile("^no-uring/(behaviour/io_driver/|examples/|it is)")

# --quick: no long tests, one flavour in addition to the current thread, one driver.
QUICK_SUITES = ["unit", "behaviour", "coverage", "layers"]
NOT_QUICK = re.compile("_on_1_worker$|_on_8_workers|_with_a_thread_per_core|_by_(epoll|poll)(_|$)|/(torture|stress)")

# Suites with long tests, or with long batches of them: they begin first, so that none of them runs alone at the end.
LONG_SUITES = ["model", "install", "cross", "debugger", "stress", "torture"]

EXIT_SKIPPED = 77
NO_RINGS = "no io_uring here"
SLOWNESS = {"": 1, "address": 6, "thread": 6, "valgrind": 20}


# ---- Settings -----------------------------------------------------------------------------------


class Settings:
    def __init__(self, arguments):
        self.build = Path(arguments.build_dir).resolve()
        self.sanitizer = arguments.sanitizer
        if self.sanitizer is None:
            self.sanitizer = self.cached("AWAKE_SANITIZE")
        self.valgrind = arguments.valgrind
        self.kind = "valgrind" if self.valgrind else self.sanitizer
        self.slowness = SLOWNESS[self.kind]
        self.partial = arguments.make and bool(arguments.filter or arguments.only or arguments.quick)
        self.wrapper = self.find_wrapper()
        self.env = self.sanitizer_env()
        if arguments.seed is not None:
            self.env["AWAKE_TEST_SEED"] = str(arguments.seed)

    def under(self, program):
        """A copy of the settings in which all programs run under this one of tests/tools."""
        changed = copy.copy(self)
        changed.__dict__.pop("has_rings", None)
        changed.wrapper = self.wrapper + [self.build / "tests" / "tools" / program]
        return changed

    @functools.cached_property
    def has_rings(self):
        """Whether the programs can use io_uring. A test that needs it tells."""
        program = self.build / "tests" / "behaviour" / "io_seccomp"
        try:
            run_program_test(self, self.env, program, "rings_that_are_there_are_used_when_more_are_forbidden_by_uring",
                             DEFAULT_LIMIT)
        except Skipped as skipped:
            if str(skipped) != NO_RINGS:
                raise
            return False
        return True

    def skips(self, driver):
        """Whether tests with this driver are known to be skipped."""
        try:
            return driver == "uring" and not self.has_rings
        except (Failed, OSError):  # the program that tells is broken, or was not built
            return False

    def need_driver(self, driver):
        if driver == "uring" and not self.has_rings:
            raise Skipped(NO_RINGS)

    def cached(self, name):
        """A setting of the build directory."""
        cache = self.build / "CMakeCache.txt"
        found = re.search(rf"^{name}:\w+=(.*)$", cache.read_text(), re.M) if cache.exists() else None
        return found.group(1) if found else ""

    def find_wrapper(self):
        """The command under which all programs run."""
        if self.valgrind:
            # Handles point into the middle of tasks, so "possibly lost" memory is not lost.
            return ["valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full", "--fair-sched=yes",
                    "--errors-for-leak-kinds=definite", "--child-silent-after-fork=yes"]
        # With more than 28 random address bits, the kernel may place mappings where older sanitizer runtimes need
        # their shadow memory.
        try:
            random_bits = int(Path("/proc/sys/vm/mmap_rnd_bits").read_text())
        except (OSError, ValueError):
            random_bits = 0
        if self.sanitizer and random_bits > 28 and shutil.which("setarch"):
            if subprocess.run(["setarch", "-R", "true"], stderr=subprocess.DEVNULL).returncode == 0:
                return ["setarch", "-R"]
        return []

    def sanitizer_env(self):
        # A failed allocation returns NULL, as without a sanitizer.
        common = "allocator_may_return_null=1"
        # clang's runtimes need a symbolizer. If that of LLVM is missing, use that of binutils.
        if not shutil.which("llvm-symbolizer") and shutil.which("addr2line"):
            common += f":external_symbolizer_path={shutil.which('addr2line')}"
        options = {
            "ASAN_OPTIONS": f"{common}:detect_leaks=1:detect_stack_use_after_return=1:abort_on_error=0",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
            "TSAN_OPTIONS": f"{common}:halt_on_error=1:second_deadlock_stack=1",
        }
        # Options of the caller come last and override these.
        return {name: ":".join(filter(None, [value, os.environ.get(name)])) for name, value in options.items()}


# ---- Test programs: unit, behaviour, stress, torture, model -------------------------------------


def program_tests(settings, suite, pool):
    sources = fiber_programs() if suite == "portable" else sorted((ROOT / "tests" / suite).glob("*.c"))
    programs = [(source.stem, settings.build / "tests" / suite / source.stem) for source in sources]
    for stem, name, run, batch in tests_of(settings, programs, pool):
        yield program_test(suite, stem, name, run, batch)


def program_test(suite, program, name, run, batch):
    return Test(suite, f"{program}/{name}" if name else program, run, alone="_timing" in name, batch=batch, of_batch=name)


def worker_tests(settings, suite, pool):
    """Tests that leave the flavour of their runtimes to the environment, and are not bound to the current thread."""
    programs, others = [], set()
    for pattern in ("unit/fiber_*.c", "behaviour/*.c", "stress/*.c", "torture/*.c"):
        for source in sorted((ROOT / "tests").glob(pattern)):
            text = source.read_text()
            if source.stem.startswith(("workers_", "perturbed_")) or re.search(r"^ALL_ON_THIS_THREAD", text, re.M):
                continue
            name = f"{source.parent.name}/{source.stem}"
            programs.append((name, settings.build / "tests" / name))
            marked = re.findall(r"^TEST(?:_LIMIT)?\((\w+)[^{]*{\s*ON_THIS_THREAD", text, re.M)
            others.update((name, test) for test in marked)
            # These run on each flavour already: the name is that of the test with a suffix.
            chosen = re.findall(r"^(?:ON_)?(?:BOTH|FLAVOURS|WORKERS)(?:_LIMIT)?\((\w+)", text, re.M)
            others.update((name, test + where) for test in chosen for where in FLAVOURS)
    for program, name, run, batch in tests_of(settings, programs, pool, WORKERS[suite]):
        # Tests of real time run on two workers only.
        chosen = (program, name) in others or BY_DRIVER.search(name)
        if not chosen and ("_timing" not in name or suite == "workers-2"):
            yield program_test(suite, program, name, run, batch)


def tests_of(settings, programs, pool, env={}):
    """(program, test, function that runs it alone, batch that it can run in). The test is "" if the program cannot list
    its tests, or has none."""
    env = {**settings.env, **env}

    def listing(program):
        try:
            wrapper = [] if settings.valgrind else settings.wrapper
            return must_run(wrapper + [program, "--list"], env=env), None
        except (Failed, OSError) as problem:
            return "", str(problem)

    # Programs that the filter does not need were not built.
    programs = [(stem, program) for stem, program in programs if program.exists() or not settings.partial]
    for (stem, program), (names, problem) in zip(programs, pool.map(listing, [p for _, p in programs])):
        if problem or not names:
            yield stem, "", broken(problem or "the program has no test"), None
        # Valgrind is silent about forked children, so it needs one process per test.
        batch = None if settings.valgrind else Batch(settings.wrapper + [program], settings.slowness, env)
        for line in names.splitlines():
            name, limit = line.split()
            yield stem, name, lambda program=program, name=name, limit=int(limit): \
                run_program_test(settings, env, program, name, limit), batch


def broken(problem):
    def run():
        raise Failed(problem)
    return run


def raise_if_skipped(status, output):
    last = (output.splitlines() or [""])[-1]
    if status == EXIT_SKIPPED and last.startswith("SKIP: "):
        raise Skipped(last[len("SKIP: "):])


def again(env, program, name):
    """The command line that runs a test by hand."""
    variables = "".join(f"{key}={env[key]} " for key in env if key.startswith("AWAKE_"))
    return f"again: {variables}{os.path.relpath(program, ROOT)} {name}"


def run_program_test(settings, env, program, name, limit):
    done = execute(settings.wrapper + [program, name], limit * settings.slowness, env=env)
    raise_if_skipped(done.status, done.stdout)
    if done.status != 0:
        raise Failed(join_text(describe(done.status), done.stdout, done.stderr, again(env, program, name)))


def judge(batch, name, status, seconds, output):
    """Raises Failed or Skipped according to the result of a test in a batch."""
    command = again(batch.env, batch.command[-1], name)
    if status == "late":
        raise Failed(join_text(f"still running after {seconds:.0f} s", output, command))
    raise_if_skipped(int(status), output)
    if status != "0":
        raise Failed(join_text(describe(int(status)), output, command))


# ---- Examples, coverage -------------------------------------------------------------------------


def uses_the_network(example):
    return example.startswith("8")


def example_tests(settings):
    """Examples that use the network run on each driver."""
    for name in example_names():
        for driver in DRIVERS if uses_the_network(name) else [None]:
            yield Test("examples", f"{name}_by_{driver}" if driver else name,
                       lambda name=name, driver=driver: run_example(settings, name, driver), alone="_timing" in name)


def example_names():
    return sorted(source.stem for source in (ROOT / "examples").glob("*.c"))


def run_example(settings, name, driver=None):
    settings.need_driver(driver)
    file = ROOT / "examples" / "expected" / f"{name}.txt"
    if not file.exists():
        raise Failed(f"examples/expected/{name}.txt does not exist")
    expected = Expected(file.read_text())
    program = settings.build / "examples" / name
    needs = re.search(r"^/\* needs: (.*) \*/$", (ROOT / "examples" / f"{name}.c").read_text(), re.M)
    if needs and not program.exists():
        raise Skipped(f"{needs.group(1)} was not installed when the examples were built")
    for directive in expected.directives["no-sanitize"]:
        sanitizer, _, reason = directive.partition(" ")
        if sanitizer == settings.sanitizer:
            raise Skipped(reason or "no reason given")

    arguments = shlex.split(expected.get("args", "", str))
    env = {**settings.env, "AWAKE_DRIVER": driver} if driver else settings.env
    done = execute(settings.wrapper + [program] + arguments,
                   expected.get("limit", DEFAULT_LIMIT) * settings.slowness, env=env,
                   terminal=True, merge=expected.has("stderr"))
    raise_if_skipped(done.status, done.stdout)
    status = done.status if done.status >= 0 else 128 - done.status
    wanted = expected.get("exit", 0, int)
    if status != wanted:
        raise Failed(join_text(f"exit status {status} instead of {wanted}", done.stdout, done.stderr))
    try:
        check_text(expected.lines, done.stdout, expected.has("unordered"))
    except Failed as problem:
        raise Failed(join_text(str(problem), done.stderr and "stderr:", done.stderr))

    low, high = expected.get("min-seconds", 0), expected.get("max-seconds", None)
    if done.seconds < low:
        raise Failed(f"done after {done.seconds:.2f} s, which is less than {low:g} s")
    if high is not None and done.seconds > high * settings.slowness:
        raise TooSlow(f"done after {done.seconds:.2f} s, which is more than {high * settings.slowness:g} s")


def no_uring_tests(settings, pool):
    """I/O tests with io_uring forbidden. A test for io_uring requests no driver there, and gets the next one. Left out
    are tests of rings, which exist for no other driver, and tests that forbid io_uring themselves."""
    forbidden = settings.under("no_uring")
    programs = [(f"behaviour/{source.stem}", settings.build / "tests" / "behaviour" / source.stem)
                for pattern in ("io_*.c", "net_*.c", "bytes_*.c", "embed.c")
                for source in sorted((ROOT / "tests" / "behaviour").glob(pattern)) if source.stem != "io_seccomp"]
    found = list(tests_of(forbidden, programs, pool))
    names = {(program, name) for program, name, _, _ in found}
    for program, name, run, batch in found:
        driver = BY_DRIVER.search(name)
        if not driver or (driver.group(1) == "uring" and (program, name.replace("_by_uring", "_by_epoll")) in names):
            yield program_test("no-uring", program, name, run, batch)
    for name in filter(uses_the_network, example_names()):
        yield Test("no-uring", f"examples/{name}", lambda name=name: run_example(forbidden, name))
    yield Test("no-uring", "it is unavailable", lambda: must_have_no_rings(forbidden))


def must_have_no_rings(forbidden):
    """Otherwise the suite tests nothing."""
    if forbidden.has_rings:
        raise Failed("io_uring works in spite of the policy")


def coverage_tests():
    script = ROOT / "scripts" / "public-futures.py"
    yield Test("coverage", "every public future has a cancel-at-every-await test",
               lambda: must_run([script, "--check"]))


# ---- Building programs --------------------------------------------------------------------------

# Suffixes that macros of tests/support append to the name of a test in its source.
ENDINGS = [""] + FLAVOURS + [f"_by_{driver}{flavour}" for driver in DRIVERS for flavour in [""] + FLAVOURS]


def source_matches(pattern, suite, program, text):
    """Whether a test of this source may match: by the names in the source, with the suffixes that macros append."""
    if pattern.search(f"{suite}/{program}"):
        return True
    names = re.findall(r"^[A-Z_]+\((\w+)", text, re.M)
    return any(pattern.search(f"{suite}/{program}/{name}{ending}") for name in names for ending in ENDINGS)


def needed_targets(suites, pattern):
    """The build targets for the tests of these suites with matching names."""
    folders = {suite: [suite] for suite in PROGRAM_SUITES if suite != "portable"}
    folders.update({suite: ["unit", "behaviour", "stress", "torture"] for suite in WORKERS})
    folders["no-uring"] = ["behaviour"]
    targets = {"awake_static", "test-tools-no_uring"}
    for suite in suites:
        for folder in folders.get(suite, []):
            for source in sorted((ROOT / "tests" / folder).glob("*.c")):
                program = source.stem if suite == folder else f"{folder}/{source.stem}"
                if source_matches(pattern, suite, program, source.read_text()):
                    targets.add(f"test-{folder}-{source.stem}")
        if suite == "portable":
            targets.update(f"test-portable-{source.stem}" for source in fiber_programs()
                           if source_matches(pattern, suite, source.stem, source.read_text()))
        if suite == "examples":
            targets.update(f"example-{name}" for name in example_names()
                           if any(pattern.search(f"examples/{name}{ending}") for ending in ENDINGS))
        # The names of these tests are not in the sources: build all programs that they may need.
        if suite in ("peers", "no-uring", "debugger") and pattern.search(suite):
            targets.update({"examples", "tests"} if suite == "debugger" else {"examples"})
        if suite in ("install", "readme", "debugger"):
            targets.add("awake_shared")
    return targets


def make(settings, suites, arguments):
    targets = needed_targets(suites, re.compile(arguments.filter))
    known = subprocess.run(["cmake", "--build", settings.build, "--target", "help"], stdout=subprocess.PIPE, text=True)
    known = set(re.findall(r"[\w.+-]+", known.stdout))
    targets = sorted(target for target in targets if target in known)  # examples without their library have no target
    command = ["cmake", "--build", settings.build, "--parallel", str(len(os.sched_getaffinity(0))), "--target", *targets]
    if status := subprocess.run(command).returncode:
        sys.exit(status)


# ---- Running them all ---------------------------------------------------------------------------


def discover(settings, suites, pool):
    stage = Stage(settings)
    for suite in suites:
        if suite in PROGRAM_SUITES:
            yield from program_tests(settings, suite, pool)
        elif suite in WORKERS:
            yield from worker_tests(settings, suite, pool)
        elif suite == "examples":
            yield from example_tests(settings)
        elif suite == "peers":
            yield from peer_tests(settings)
        elif suite == "no-uring":
            yield from no_uring_tests(settings, pool)
        elif suite == "compile":
            yield from compile_tests()
        elif suite == "headers":
            yield from header_tests()
        elif suite == "coverage":
            yield from coverage_tests()
        elif suite == "layers":
            yield from layer_tests(settings)
        elif suite == "install":
            yield from install_tests(settings, stage)
        elif suite == "readme":
            yield from readme_tests(stage)
        elif suite == "cross":
            yield from cross_tests(settings)
        elif suite == "debugger":
            yield from debugger_tests(settings)


class Report:
    """Counts results, prints each failure at once, and a line at the end of each suite."""

    def __init__(self, tests):
        self.lock = threading.Lock()
        self.left = collections.Counter(test.suite for test in tests)
        self.counts = collections.defaultdict(collections.Counter)
        self.skipped = []
        self.durations = []
        self.begin = time.monotonic()

    def add(self, test, verdict, text, seconds):
        with self.lock:
            self.counts[test.suite][verdict] += 1
            self.left[test.suite] -= 1
            self.durations.append((seconds, test.name))
            if verdict == "failed":
                lines = text.splitlines()
                if len(lines) > 150:
                    lines = lines[:50] + [f"... {len(lines) - 150} lines ..."] + lines[-100:]
                print(f"FAILED {test.name} ({seconds:.1f} s)")
                print("".join(f"    {line}\n" for line in lines), end="")
            elif verdict == "skipped":
                self.skipped.append(f"skipped {test.name}: {text}")
            if self.left[test.suite] == 0:
                elapsed = time.monotonic() - self.begin
                print(f"{test.suite}: {self.line(self.counts[test.suite])} ({elapsed:.0f} s)")
            sys.stdout.flush()

    @staticmethod
    def line(counts):
        text = f"{counts['passed']} passed, {counts['failed']} failed"
        return text + (f", {counts['skipped']} skipped" if counts["skipped"] else "")

    def print_durations(self, slowest):
        """The slowest tests, programs and suites. Tests run in parallel, so the sum of a suite exceeds the time that
        passed."""
        tests, programs, suites = collections.Counter(), collections.Counter(), collections.Counter()
        for seconds, name in self.durations:
            tests[name] += seconds
            programs[name.rpartition("/")[0]] += seconds
            suites[name.partition("/")[0]] += seconds
        for kind, sums in (("tests", tests), ("programs", programs), ("suites", suites)):
            print(f"slowest {kind}:")
            for name, seconds in sums.most_common(slowest):
                print(f"{seconds:7.1f} s  {name}")

    def close(self, slowest):
        if slowest:
            self.print_durations(slowest)
        for line in sorted(self.skipped):
            print(line)
        total = sum(self.counts.values(), collections.Counter())
        print(self.line(total), flush=True)
        return 1 if total["failed"] or not total else 0  # a run without tests has failed


def run_test(test, report, again):
    """again: list for tests that were only too slow; None if this is the second attempt."""
    begin = time.monotonic()
    if not record(test, report, test.run, again, lambda: time.monotonic() - begin):
        again.append(test)


def record(test, report, run, again, seconds):
    """Calls `run` and reports the result. Returns False if it was only too slow and gets a second attempt."""
    verdict, text = "passed", ""
    try:
        run()
    except Skipped as skipped:
        verdict, text = "skipped", str(skipped)
    except TooSlow as failed:
        if again is not None:
            return False
        verdict, text = "failed", str(failed)
    except Failed as failed:
        verdict, text = "failed", str(failed)
    except Exception as surprise:  # such as a missing program or a bad directive: other tests continue
        verdict, text = "failed", f"{type(surprise).__name__}: {surprise}"
    report.add(test, verdict, text, seconds())
    return True


def run_batch(tests, report):
    """Runs several tests of one program, which is started once."""
    batch, left = tests[0].batch, collections.deque(tests)
    for name, status, seconds, output in batch.run([test.of_batch for test in tests]):
        record(left.popleft(), report, lambda: judge(batch, name, status, seconds, output), None, lambda: seconds)
    for test in left:
        record(test, report, broken(join_text("the program ended before this test", batch.last_words)), None, lambda: 0)


def run_together(tests, report, again):
    if tests[0].batch:
        run_batch(tests, report)
    else:
        run_test(tests[0], report, again)


def in_batches(tests):
    """Lists of tests of one program that share an exec. They are short enough to keep all processors busy."""
    max_tests = 24
    batches, single = collections.defaultdict(list), []
    for test in tests:
        (batches[test.suite, test.batch] if test.batch else single).append(test)
    lists = [together[at:at + max_tests] for together in batches.values() for at in range(0, len(together), max_tests)]
    lists += [[test] for test in single]
    return sorted(lists, key=lambda tests: tests[0].suite not in LONG_SUITES)


def is_chosen(arguments, kind, test, variants, names):
    """Whether a test is part of this run: full, normal or quick. `variants` has those of each test, `names` the names of
    all tests."""
    if arguments.full:
        return True
    if test.suite == "no-uring" and not NO_URING_SAMPLE.search(test.name):
        return False
    if arguments.quick and (test.alone or NOT_QUICK.search(test.name)):
        return False
    if ORDERS.search(test.name):
        return False
    # On one thread there are no races. workers-8 has the same test with workers.
    if kind == "thread" and f"workers-8/{test.name}" in names:
        return False
    base, variant = split_variant(test.name)
    if variant == (None, ""):
        return True
    if kind and variants[base] & VARIANTS[kind]:
        return variant in VARIANTS[kind]
    # With each driver, or without one: the variants that are listed, or all if there are none.
    alike = {other for other in variants[base] if other[0] == variant[0]}
    return variant in VARIANTS[""] or not alike & VARIANTS[""]


def split_variant(name):
    """The name without its driver and flavour, and these two. The flavour of a test without suffix is ""."""
    if driver := BY_DRIVER.search(name):
        return name[:driver.start()], (driver.group(1), name[driver.end(1):])
    flavour = next((suffix for suffix in FLAVOURS if name.endswith(suffix)), "")
    return name[:len(name) - len(flavour)], (None, flavour)


def is_for(driver, name):
    """Whether the test may run with AWAKE_DRIVER set to `driver`: not if it selects another driver itself."""
    chosen = BY_DRIVER.search(name)
    return not driver or not chosen or chosen.group(1) == driver


def main():
    parser = argparse.ArgumentParser(description="Run Awake's tests.")
    parser.add_argument("--build-dir", default=ROOT / "build" / "gcc")
    parser.add_argument("--only", default="", help=f"suites, separated by commas: {', '.join(SUITES)}")
    parser.add_argument("--filter", default="", help="a regular expression on suite/program/test")
    parser.add_argument("--full", action="store_true", help="all variants of all tests")
    parser.add_argument("--quick", action="store_true", help="a sample")
    parser.add_argument("--make", action="store_true", help="first build the programs that the tests need")
    parser.add_argument("--repeat", type=int, default=1, help="run each test this often")
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)) + 1)
    parser.add_argument("--sanitizer", choices=["", "address", "thread"], help="default: that of the build directory")
    parser.add_argument("--valgrind", action="store_true", help="run the programs under memcheck")
    parser.add_argument("--seed", type=int, help="sets AWAKE_TEST_SEED")
    parser.add_argument("--slowest", type=int, default=0, metavar="N",
                        help="print the durations of the N slowest tests, programs and suites")
    arguments = parser.parse_args()

    settings = Settings(arguments)
    suites = [suite for suite in arguments.only.split(",") if suite]
    if unknown := [suite for suite in suites if suite not in SUITES]:
        parser.error(f"no suite is called {unknown[0]}")
    if not suites:
        suites = [suite for suite in SUITES if suite not in LEFT_OUT[settings.kind]]
        if not arguments.full:
            suites = [suite for suite in suites if suite not in FULL_ONLY[settings.kind]]
        if arguments.quick:
            suites = QUICK_SUITES

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # inherited by all child processes
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):  # the installation runs its own make
        os.environ.pop(name, None)

    def stop(*_):
        kill_running()
        os._exit(130)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        if arguments.make:
            make(settings, suites, arguments)
        tests = list(discover(settings, suites, pool))
        names = {test.name for test in tests}
        variants = collections.defaultdict(set)
        for base, variant in map(split_variant, names):
            # A test that is skipped must not stand for another.
            if not settings.kind or not settings.skips(variant[0]):
                variants[base].add(variant)
        tests = [test for test in tests if re.search(arguments.filter, test.name)
                 and is_for(os.environ.get("AWAKE_DRIVER"), test.name)
                 and is_chosen(arguments, settings.kind, test, variants, names)]
        tests *= arguments.repeat
        report = Report(tests)
        # Tests of real time run after all others, one by one.
        alone = [test for test in tests if test.alone]
        again = []
        crowd = [test for test in tests if not test.alone]
        # Tests of peers wait for most of their time. They get a thread of their own, beside the tests that compute.
        with concurrent.futures.ThreadPoolExecutor(1) as waiting:
            started = [(waiting if tests[0].suite == "peers" else pool).submit(run_together, tests, report, again)
                       for tests in in_batches(crowd)]
            for end in started:
                end.result()
    for test in again + alone:
        run_test(test, report, None)
    sys.exit(report.close(arguments.slowest))


if __name__ == "__main__":
    main()
