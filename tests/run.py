#!/usr/bin/env python3
"""Runs the tests, each in a process of its own with a time limit, in parallel.

    tests/run.py --build-dir build/gcc                   everything
    tests/run.py --build-dir build/gcc --only unit       one or more suites (see SUITES)
    tests/run.py --build-dir build/gcc --filter REGEX    the tests whose name matches

The programs must be built already (`make test` does both). CONTRIBUTING.md says how each kind of test
is written. The last line is `N passed, N failed`, with `, N skipped` when some were.
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
from runner.peers import peer_tests
from runner.process import (DEFAULT_LIMIT, DRIVERS, ROOT, Failed, Skipped, Test, TooSlow, describe, execute, join_text,
                            kill_running, must_run)

# "portable": the tests of fibers on a library that switches stacks by ucontext.
PROGRAM_SUITES = ["unit", "behaviour", "stress", "torture", "model", "portable"]
# Tests of unit, behaviour, stress and torture once more, where the runtimes that they make have so many workers.
WORKERS = {f"workers-{n}": {"AWAKE_FLAVOUR": "multi", "AWAKE_WORKERS": str(n)} for n in (1, 2, 8)}
# How the tests end that tests/support/workers.h makes of one, each on a flavour.
FLAVOURS = ["_on_the_current_thread", "_on_1_worker", "_on_2_workers", "_on_8_workers", "_on_one_thread",
            "_with_workers", "_with_a_thread_per_core"]
# And those of input and output, each on a driver: they choose the flavour as well.
BY_DRIVER = re.compile(f"_by_({'|'.join(DRIVERS)})(?:_|$)")
# What concerns the sources and not the running library is tested once, without sanitizers.
SOURCE_SUITES = ["compile", "headers", "coverage", "install", "readme", "cross", "debugger"]
# "no-uring": tests of input and output once more, where a policy forbids io_uring.
SUITES = PROGRAM_SUITES + list(WORKERS) + ["examples", "peers", "no-uring"] + SOURCE_SUITES

# What is not run unless it is asked for: by a sanitizer, or valgrind. The interleaver of model is a single thread, and
# sees races by itself. One worker has no races but those with the thread in block_on; what two have, eight have as well;
# and what ASan finds on workers it finds in the tests that make them by themselves.
LEFT_OUT = {
    "": [],
    "address": SOURCE_SUITES + ["model", "no-uring", "workers-1", "workers-2", "workers-8"],
    "thread": SOURCE_SUITES + ["model", "no-uring", "workers-1", "workers-2"],
    "valgrind": SOURCE_SUITES + ["model", "no-uring"] + list(WORKERS),
}

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
        self.wrapper = self.find_wrapper()
        self.env = self.sanitizer_env()
        if arguments.seed is not None:
            self.env["AWAKE_TEST_SEED"] = str(arguments.seed)

    def under(self, program):
        """The same, and all that is run is run by this program of ours."""
        changed = copy.copy(self)
        changed.__dict__.pop("has_rings", None)
        changed.wrapper = self.wrapper + [self.build / "tests" / "tools" / program]
        return changed

    @functools.cached_property
    def has_rings(self):
        """Whether the programs can have io_uring. One that needs it knows."""
        program = self.build / "tests" / "behaviour" / "io_seccomp"
        try:
            run_program_test(self, self.env, program, "rings_that_are_there_are_used_when_more_are_forbidden_by_uring",
                             DEFAULT_LIMIT)
        except Skipped as skipped:
            if str(skipped) != NO_RINGS:
                raise
            return False
        return True

    def need_driver(self, driver):
        if driver == "uring" and not self.has_rings:
            raise Skipped(NO_RINGS)

    def cached(self, name):
        """A setting of the build directory."""
        cache = self.build / "CMakeCache.txt"
        found = re.search(rf"^{name}:\w+=(.*)$", cache.read_text(), re.M) if cache.exists() else None
        return found.group(1) if found else ""

    def find_wrapper(self):
        """What the programs are run under."""
        if self.valgrind:
            # A handle points into its task: what is only "possibly" lost is not.
            return ["valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full", "--fair-sched=yes",
                    "--errors-for-leak-kinds=definite", "--child-silent-after-fork=yes"]
        # Older sanitizer runtimes expect their shadow memory where a kernel with more than 28 random bits
        # in its addresses may have put something else.
        try:
            random_bits = int(Path("/proc/sys/vm/mmap_rnd_bits").read_text())
        except (OSError, ValueError):
            random_bits = 0
        if self.sanitizer and random_bits > 28 and shutil.which("setarch"):
            if subprocess.run(["setarch", "-R", "true"], stderr=subprocess.DEVNULL).returncode == 0:
                return ["setarch", "-R"]
        return []

    def sanitizer_env(self):
        # A failed allocation returns NULL, as it would without a sanitizer.
        common = "allocator_may_return_null=1"
        # clang's runtimes look for a tool of LLVM to name the lines; that of binutils will do.
        if not shutil.which("llvm-symbolizer") and shutil.which("addr2line"):
            common += f":external_symbolizer_path={shutil.which('addr2line')}"
        options = {
            "ASAN_OPTIONS": f"{common}:detect_leaks=1:detect_stack_use_after_return=1:abort_on_error=0",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
            "TSAN_OPTIONS": f"{common}:halt_on_error=1:second_deadlock_stack=1",
        }
        # What the caller set comes last and wins.
        return {name: ":".join(filter(None, [value, os.environ.get(name)])) for name, value in options.items()}


# ---- Test programs: unit, behaviour, stress, torture, model -------------------------------------


def program_tests(settings, suite, pool):
    sources = fiber_programs() if suite == "portable" else sorted((ROOT / "tests" / suite).glob("*.c"))
    programs = [(source.stem, settings.build / "tests" / suite / source.stem) for source in sources]
    for stem, name, run in tests_of(settings, programs, pool):
        yield Test(suite, f"{stem}/{name}" if name else stem, run, alone="_timing" in name)


def worker_tests(settings, suite, pool):
    """What makes runtimes and leaves their flavour to the environment, and says nothing against it."""
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
            # These run on each flavour by themselves: test and where, in one name.
            chosen = re.findall(r"^(?:ON_)?(?:BOTH|FLAVOURS|WORKERS)(?:_LIMIT)?\((\w+)", text, re.M)
            others.update((name, test + where) for test in chosen for where in FLAVOURS)
    for program, name, run in tests_of(settings, programs, pool, WORKERS[suite]):
        # What measures time measures it on two.
        chosen = (program, name) in others or BY_DRIVER.search(name)
        if not chosen and ("_timing" not in name or suite == "workers-2"):
            yield Test(suite, f"{program}/{name}" if name else program, run, alone="_timing" in name)


def tests_of(settings, programs, pool, env={}):
    """Program, test and how it runs; no test's name stands for a program that has none."""
    env = {**settings.env, **env}

    def listing(program):
        try:
            wrapper = [] if settings.valgrind else settings.wrapper
            return must_run(wrapper + [program, "--list"], env=env), None
        except (Failed, OSError) as problem:
            return "", str(problem)

    for (stem, program), (names, problem) in zip(programs, pool.map(listing, [p for _, p in programs])):
        if problem or not names:
            yield stem, "", broken(problem or "it holds no test")
        for line in names.splitlines():
            name, limit = line.split()
            yield stem, name, lambda program=program, name=name, limit=int(limit): \
                run_program_test(settings, env, program, name, limit)


def broken(problem):
    def run():
        raise Failed(problem)
    return run


def raise_if_skipped(done):
    last = (done.stdout.splitlines() or [""])[-1]
    if done.status == EXIT_SKIPPED and last.startswith("SKIP: "):
        raise Skipped(last[len("SKIP: "):])


def run_program_test(settings, env, program, name, limit):
    done = execute(settings.wrapper + [program, name], limit * settings.slowness, env=env)
    raise_if_skipped(done)
    if done.status != 0:
        raise Failed(join_text(describe(done.status), done.stdout, done.stderr,
                               f"again: {''.join(f'{key}={env[key]} ' for key in env if key.startswith('AWAKE_'))}{os.path.relpath(program, ROOT)} {name}"))


# ---- Examples, and what the headers promise -----------------------------------------------------


def uses_the_network(example):
    return example.startswith("8")


def example_tests(settings):
    """Those that use the network run on each driver."""
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
        raise Skipped(f"{needs.group(1)} was not there when it should have been built")
    for directive in expected.directives["no-sanitize"]:
        sanitizer, _, reason = directive.partition(" ")
        if sanitizer == settings.sanitizer:
            raise Skipped(reason or "no reason given")

    arguments = shlex.split(expected.get("args", "", str))
    env = {**settings.env, "AWAKE_DRIVER": driver} if driver else settings.env
    done = execute(settings.wrapper + [program] + arguments,
                   expected.get("limit", DEFAULT_LIMIT) * settings.slowness, env=env,
                   terminal=True, merge=expected.has("stderr"))
    raise_if_skipped(done)
    status = done.status if done.status >= 0 else 128 - done.status
    wanted = expected.get("exit", 0, int)
    if status != wanted:
        raise Failed(join_text(f"exit status {status} instead of {wanted}", done.stdout, done.stderr))
    try:
        check_text(expected.lines, done.stdout, expected.has("unordered"))
    except Failed as problem:
        raise Failed(join_text(str(problem), done.stderr and "stderr:", done.stderr))

    least, most = expected.get("min-seconds", 0), expected.get("max-seconds", None)
    if done.seconds < least:
        raise Failed(f"done after {done.seconds:.2f} s, which is less than {least:g} s")
    if most is not None and done.seconds > most * settings.slowness:
        raise TooSlow(f"done after {done.seconds:.2f} s, which is more than {most * settings.slowness:g} s")


def no_uring_tests(settings, pool):
    """What waits for input and output, where io_uring is forbidden. What else runs on io_uring asks for nothing there, and
    gets the next best; not what is about rings, and so on no other driver, or what forbids them by itself."""
    forbidden = settings.under("no_uring")
    programs = [(f"behaviour/{source.stem}", settings.build / "tests" / "behaviour" / source.stem)
                for pattern in ("io_*.c", "net_*.c", "bytes_*.c", "embed.c")
                for source in sorted((ROOT / "tests" / "behaviour").glob(pattern)) if source.stem != "io_seccomp"]
    found = list(tests_of(forbidden, programs, pool))
    names = {(program, name) for program, name, _ in found}
    for program, name, run in found:
        driver = BY_DRIVER.search(name)
        if not driver or (driver.group(1) == "uring" and (program, name.replace("_by_uring", "_by_epoll")) in names):
            yield Test("no-uring", f"{program}/{name}" if name else program, run, alone="_timing" in name)
    for name in filter(uses_the_network, example_names()):
        yield Test("no-uring", f"examples/{name}", lambda name=name: run_example(forbidden, name))
    yield Test("no-uring", "it is out of reach", lambda: must_have_no_rings(forbidden))


def must_have_no_rings(forbidden):
    """Otherwise the other tests show nothing."""
    if forbidden.has_rings:
        raise Failed("there is an io_uring")


def coverage_tests():
    script = ROOT / "scripts" / "public-futures.py"
    yield Test("coverage", "every public future has a cancel-at-every-await test",
               lambda: must_run([script, "--check"]))


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
        elif suite == "install":
            yield from install_tests(settings, stage)
        elif suite == "readme":
            yield from readme_tests(stage)
        elif suite == "cross":
            yield from cross_tests(settings)
        elif suite == "debugger":
            yield from debugger_tests(settings)


class Report:
    """Counts, prints each failure when it happens and a line when a suite is through."""

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

    def close(self, slowest):
        for seconds, name in sorted(self.durations, reverse=True)[:slowest]:
            print(f"{seconds:7.1f} s  {name}")
        for line in sorted(self.skipped):
            print(line)
        total = sum(self.counts.values(), collections.Counter())
        print(self.line(total), flush=True)
        return 1 if total["failed"] or not total else 0  # nothing ran: nothing was shown


def run_test(test, report, again):
    """again: where a test goes that was only too slow; None when this is its second chance."""
    begin = time.monotonic()
    verdict, text = "passed", ""
    try:
        test.run()
    except Skipped as skipped:
        verdict, text = "skipped", str(skipped)
    except TooSlow as failed:
        if again is not None:
            again.append(test)
            return
        verdict, text = "failed", str(failed)
    except Failed as failed:
        verdict, text = "failed", str(failed)
    except Exception as surprise:  # a missing program, a bad directive: the other tests go on
        verdict, text = "failed", f"{type(surprise).__name__}: {surprise}"
    report.add(test, verdict, text, time.monotonic() - begin)


def is_for(driver, name):
    """Where AWAKE_DRIVER names a driver, what chooses another one by itself is left out."""
    chosen = BY_DRIVER.search(name)
    return not driver or not chosen or chosen.group(1) == driver


def main():
    parser = argparse.ArgumentParser(description="Run Awake's tests.")
    parser.add_argument("--build-dir", default=ROOT / "build" / "gcc")
    parser.add_argument("--only", default="", help=f"suites, separated by commas: {', '.join(SUITES)}")
    parser.add_argument("--filter", default="", help="a regular expression on suite/program/test")
    parser.add_argument("--repeat", type=int, default=1, help="run each test this often")
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)) + 1)
    parser.add_argument("--sanitizer", choices=["", "address", "thread"], help="default: as the build directory")
    parser.add_argument("--valgrind", action="store_true", help="run the programs under memcheck")
    parser.add_argument("--seed", type=int, help="sets AWAKE_TEST_SEED")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="name the N slowest tests")
    arguments = parser.parse_args()

    settings = Settings(arguments)
    suites = [suite for suite in arguments.only.split(",") if suite]
    if unknown := [suite for suite in suites if suite not in SUITES]:
        parser.error(f"no suite is called {unknown[0]}")
    if not suites:
        suites = [suite for suite in SUITES if suite not in LEFT_OUT[settings.kind]]

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # for all that we start
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):  # the installation is not part of our own make
        os.environ.pop(name, None)

    def stop(*_):
        kill_running()
        os._exit(130)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        tests = [test for test in discover(settings, suites, pool)
                 if re.search(arguments.filter, test.name) and is_for(os.environ.get("AWAKE_DRIVER"), test.name)]
        tests *= arguments.repeat
        report = Report(tests)
        # What measures time waits until nothing else runs.
        alone = [test for test in tests if test.alone]
        again = []
        # The long ones first, so that none of them is left running alone at the end.
        crowd = sorted((test for test in tests if not test.alone),
                       key=lambda test: test.suite not in ("install", "stress", "torture"))
        list(pool.map(lambda test: run_test(test, report, again), crowd))
    for test in again + alone:
        run_test(test, report, None)
    sys.exit(report.close(arguments.slowest))


if __name__ == "__main__":
    main()
