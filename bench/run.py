#!/usr/bin/env python3
"""Runs the benchmarks and prints their medians and aims.

    bench/run.py --build-dir build/gcc              everything, 5 rounds
    bench/run.py --build-dir build/gcc --rounds 15 spawn yield

Each program runs on the current thread, on one worker and on two. Run alone, a program takes the number of workers as
its argument. The current thread is measured in processor time, workers in elapsed time.

Rounds are interleaved: each round runs every program once, so that a short load of the machine affects one round and
not one program. The spread is that of the middle half of the rounds. The programs must have been built (`make bench`
does both), with the diagnostics on, as in the default build.

Network I/O is measured between processes: see bench/network.py. NAME may also be one of its benchmarks.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import network

ROOT = Path(__file__).resolve().parent.parent

# Numbers of workers a program runs on, if not 0 (the current thread), 1 and 2.
WORKERS = {
    "fiber_switch": (0,),
    "blocking": (2,),
    "foreign_spawn": (1, 2),
    "foreign_wake": (1, 2),
}
# These take long and do not vary: they run in one round only.
ONCE = {"parked"}
# Calls of futex(2) by these programs are counted with strace. Each program performs a million operations.
FUTEX = {"foreign_spawn": "a million tasks spawned", "foreign_wake": "a million tasks woken"}
THREADS = (1, 2, 4, 8, 16)

# {measure: (text, aim or None)}. The aims are for an ordinary x86-64 machine.
MEASURES = {
    "spawn/at-once": ("spawn and join 1,000,000 tasks, all at once, each", 80),
    "spawn/one-by-one": ("spawn and join 1,000,000 tasks, one by one, each", 45),
    "scope/child": ("a scope of 1,000 children, a child", None),
    "scope/in-a-set": ("... a join set of 1,000 tasks, each", None),
    "scope/joined": ("... 1,000 tasks spawned and joined, each", None),
    "yield/yield": ("1,000 tasks yield 1,000 times, a yield", 15),
    "notify/round": ("two tasks exchange 1,000,000 notifications, a round", None),
    "locks/mutex-free": ("a free mutex is locked and unlocked", None),
    "locks/semaphore-free": ("... a permit of a semaphore taken and given back", None),
    "locks/read-free": ("... a rwlock for reading", None),
    "locks/write-free": ("... and for writing", None),
    "locks/mutex-wanted": ("four tasks want a mutex and yield while they have it, a turn", None),
    "locks/semaphore-wanted": ("... a semaphore with one permit", None),
    "locks/write-wanted": ("... a rwlock for writing", None),
    "stream/pipeline": ("an item from an array through a map and a filter into a fold", None),
    "stream/each": ("... from an array, a next for each", None),
    "stream/generator": ("... from a generator that is an async function", None),
    "stream/fiber-generator": ("... from a generator that is a fiber", None),
    "stream/one-by-one": ("... and a future for each, which yields, one at a time", None),
    "stream/buffered": ("... 64 at once, in order", None),
    "stream/unordered": ("... 64 at once, as they finish", None),
    "timeout/ready": ("a timeout around a ready future", 15),
    "timeout/yielding": ("a timeout around a yielding future", 100),
    "call/call": ("an embedded async call that is ready at once", 3),
    "sleep/cpu": ("1,000,000 sleeping tasks, processor time", None),
    "sleep/lateness-median": ("1,000,000 sleeping tasks, median lateness", None),
    "sleep/lateness-p99": ("1,000,000 sleeping tasks, 99 % are less late than", None),
    "sleep/bytes-in-heap": ("a sleeping task: bytes", None),
    "sleep/bytes-resident": ("a sleeping task: growth of the process", None),
    "idle/bytes-in-heap": ("a task that waits for a notification: bytes", 136),
    "idle/bytes-resident": ("... growth of the process", None),
    "idle/bytes-alone": ("... asked of an allocator of the user's", None),
    "idle/frame": ("... of which the frame of the function", None),
    "idle/frame-of-the-wait": ("... and in it that of the wait", None),
    "idle/ten-apart": ("a frame with ten sleeps, a member for each", None),
    "idle/ten-shared": ("... with AW_SHARE", None),
    "fiber_switch/switch": ("a bare switch of stacks", 5),
    "fiber_switch/poll": ("a poll of a fiber that yields: there and back", None),
    "fiber_switch/life": ("a fiber is made, runs and ends", None),
    "fiber_yield/ten": ("10 fibers yield 100,000 times, a yield", 25),
    "fiber_yield/ten-async": ("... async functions", None),
    "fiber_yield/thousand": ("1,000 fibers yield 1,000 times, a yield", 25),
    "fiber_yield/thousand-async": ("... async functions", None),
    "fiber_notify/round": ("two fibers exchange 400,000 notifications, a round", None),
    "fiber_notify/round-async": ("... async functions", None),
    "fiber_await/ready": ("an await of a ready future, in a fiber", None),
    "fiber_await/ready-async": ("... in an async function", None),
    "fiber_await/call": ("an await of an async function that is ready at once, in a fiber", None),
    "fiber_await/call-async": ("... in an async function", None),
    "fiber_await/timeout-ready": ("a timeout around a ready future, in a fiber", None),
    "fiber_await/timeout-ready-async": ("... in an async function", None),
    "fiber_await/timeout-yielding": ("a timeout around a yielding future, in a fiber", None),
    "fiber_await/timeout-yielding-async": ("... in an async function", None),
    "fiber_spawn/one-by-one": ("spawn and join 300,000 fibers, one by one, each", None),
    "fiber_spawn/one-by-one-async": ("... async functions", None),
    "fiber_idle/waiting-10000": ("10,000 idle fibers: how many of them fit", None),
    "fiber_idle/make-10000": ("... to spawn one and run it until it waits", None),
    "fiber_idle/cancel-10000": ("... to abort and join one", None),
    "fiber_idle/trim-10000": ("... to give back what is left of one", None),
    "fiber_idle/bytes-resident-10000": ("... growth of the process, each", None),
    "fiber_idle/bytes-of-tables-10000": ("... and of its page tables", None),
    "fiber_idle/mappings-10000": ("... additional mappings, of all", None),
    "fiber_idle/waiting-100000": ("100,000 idle fibers: how many of them fit", None),
    "fiber_idle/make-100000": ("... to spawn one and run it until it waits", None),
    "fiber_idle/cancel-100000": ("... to abort and join one", None),
    "fiber_idle/trim-100000": ("... to give back what is left of one", None),
    "fiber_idle/bytes-resident-100000": ("... growth of the process, each", None),
    "fiber_idle/bytes-of-tables-100000": ("... and of its page tables", None),
    "fiber_idle/mappings-100000": ("... additional mappings, of all", None),
    "channel/1-1-bounded-1": ("messages of one sender through one slot", None),
    "channel/4-1-bounded-1": ("... of four", None),
    "channel/16-1-bounded-1": ("... of sixteen", None),
    "channel/1-1-bounded-1024": ("messages of one sender through 1,024 slots", None),
    "channel/4-1-bounded-1024": ("... of four", None),
    "channel/16-1-bounded-1024": ("... of sixteen", None),
    "channel/1-1-unbounded": ("messages of one sender, unbounded", None),
    "channel/4-1-unbounded": ("... of four", None),
    "channel/16-1-unbounded": ("... of sixteen", None),
    "channel/ping-pong": ("two tasks play ping-pong over two channels with one slot, a round", 90),
    "channel/oneshot": ("a task is spawned to answer by a oneshot", None),
    "channel/broadcast-1-8": ("one broadcast to eight, a receive", None),
    "channel/watch-1-1000": ("a change that a thousand tasks see", None),
    "channel/bytes-empty": ("an empty channel: bytes", None),
    "channel/bytes-bounded-1024": ("... with 1,024 slots of 8", None),
    "skynet/tree": ("a tree of tasks with 1,000,000 leaves, spawned and joined", None),
    "chain/link": ("1,000,000 tasks that each spawn the next, a link", None),
    "pairs/many": ("1,000 pairs of tasks exchange notifications, a round", None),
    "pairs/apart": ("two tasks that stay on two workers exchange notifications, a round", None),
    "pairs/threads": ("... two plain threads, by semaphores", None),
    "uneven/all": ("1,000 tasks with 10 us of work, spawned by one", None),
    "uneven/spread": ("... until the first of them runs on another worker", None),
    "cpu/tasks": ("64 tasks that compute", None),
    "cpu/threads": ("... the same on plain threads", None),
    "latency/median": ("a foreign thread wakes a task of a sleeping runtime, median", None),
    "latency/p99": ("... 99 % are faster than", None),
    "latency/thread-median": ("... a condition wakes a sleeping thread, median", None),
    "latency/thread-p99": ("... 99 % are faster than", None),
    "parked/threads": ("a runtime with nothing to do for 5 s: threads", None),
    "parked/switches": ("... context switches", 0),
    "parked/cpu": ("... processor time", 0),
}
for n in THREADS:
    by = f"{n} foreign thread{'s' if n > 1 else ''}"
    MEASURES[f"foreign_spawn/spawn-{n}"] = (f"1,000,000 tasks spawned by {by}, a spawn", None)
    MEASURES[f"foreign_spawn/run-{n}"] = ("... until all have run, each", None)
for n in THREADS:
    by = f"{n} foreign thread{'s' if n > 1 else ''}"
    MEASURES[f"foreign_wake/wake-{n}"] = (f"1,000,000 wakes by {by}, until the task has run", None)
for n in THREADS:
    by = f"{n} thread{'s' if n > 1 else ''}"
    MEASURES[f"blocking/one-{n}"] = (f"blocking jobs of {by}, one at a time each", None)
    MEASURES[f"blocking/many-{n}"] = ("... 32 at a time each", None)

# Aims for the speedup of two workers.
SPEEDUPS = {"cpu/tasks": 1.9}
# Units of measures that a second worker can improve.
COMPARED = {"ns", "us", "ms", "s", "jobs/s", "M/s"}


def programs(build, wanted):
    """A list of (name, program, number of workers)."""
    found = [source.stem for source in sorted((ROOT / "bench").glob("*.c"))]
    unknown = set(wanted) - set(found) - set(network.NAMES + network.ASKED_FOR)
    if unknown:
        sys.exit(f"unknown benchmark {', '.join(sorted(unknown))}; known are {', '.join(found)}, "
                 f"and for the network {', '.join(network.NAMES + network.ASKED_FOR)}")
    return [(name, build / "bench" / name, workers) for name in found if not wanted or name in wanted
            for workers in WORKERS.get(name, (0, 1, 2))]


def run(name, program, workers):
    """{measure: (value, unit)} of one run."""
    done = subprocess.run([program, str(workers)], capture_output=True, text=True)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"{name} {workers} failed with status {done.returncode}\n{done.stdout}{done.stderr}")
    results = {}
    for line in done.stdout.splitlines():
        measure, value, unit = line.split()
        results[f"{name}/{measure}"] = (float(value), unit)
    return results


def futex_calls(program, workers, threads):
    """The number of calls of all threads in one run, or None if strace does not work."""
    with tempfile.NamedTemporaryFile("r") as report:
        done = subprocess.run(["strace", "-f", "-c", "-e", "trace=futex", "-o", report.name,
                               program, str(workers), str(threads)], capture_output=True)
        lines = [line.split() for line in report if line.rstrip().endswith(" futex")]
    if done.returncode != 0:
        return None
    return int(lines[0][3]) if lines else 0


def number(value):
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}" if value < 100 else f"{value:.1f}"


def is_rate(unit):
    """Whether a larger value is better."""
    return unit.endswith("/s")


def best(values, unit):
    return max(values) if is_rate(unit) else min(values)


def spread(values):
    """Half the width of the middle half, in percent of the median."""
    middle = statistics.median(values)
    if len(values) < 2 or middle == 0:
        return ""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"±{50 * (high - low) / middle:.0f} %"


def show(rows, left):
    """Prints a table. The columns in `left` are left-aligned."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for n, row in enumerate(rows):
        cells = [cell.ljust(width) if i in left else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())
        if n == 0:
            print("-" * (sum(widths) + 2 * (len(widths) - 1)))


def in_order(samples, workers):
    """(measure, text, aim, values) of each measure that was taken on one of these numbers of workers."""
    here = {measure for measure, n in samples if n in workers}
    for measure in [m for m in MEASURES if m in here] + sorted(here - set(MEASURES)):
        text, aim = MEASURES.get(measure, (measure, None))
        yield measure, text, aim, [samples.get((measure, n)) for n in workers]


def table_of_one_thread(samples, units):
    rows = [("on the current thread", "median", "", "spread", "best", "aim", "")]
    for measure, text, aim, (values,) in in_order(samples, (0,)):
        median = statistics.median(values)
        verdict = "" if aim is None else "met" if median <= aim else f"{median / aim:.2f} x" if aim else "missed"
        rows.append((text, number(median), units[measure], spread(values), number(best(values, units[measure])),
                     "" if aim is None else str(aim), verdict))
    if len(rows) > 1:
        show(rows, (0, 2, 6))
        print()


def table_of_workers(samples, units):
    """The speedup is the ratio of the medians on one worker and on two. "slower": by more than a twentieth, and by
    the best round too."""
    rows = [("on workers", "one", "spread", "two", "spread", "", "speedup", "")]
    for measure, text, aim, (one, two) in in_order(samples, (1, 2)):
        unit, speedup, verdict = units[measure], "", ""
        if one and two and unit in COMPARED and statistics.median(two) > 0:
            ratio = statistics.median(one) / statistics.median(two)
            ratio = 1 / ratio if is_rate(unit) else ratio
            speedup = f"{ratio:.2f} x"
            if measure in SPEEDUPS:
                verdict = "met" if ratio >= SPEEDUPS[measure] else f"aim {SPEEDUPS[measure]}"
            elif ratio < 0.95 and best(two, unit) != best(one + two, unit):
                verdict = "slower"
        if aim == 0:
            verdict = "met" if max(one + two) == 0 else "missed"
        rows.append((text, number(statistics.median(one)) if one else "", spread(one) if one else "",
                     number(statistics.median(two)) if two else "", spread(two) if two else "",
                     unit, speedup, verdict))
    if len(rows) > 1:
        show(rows, (0, 5, 7))
        print()


def table_of_futex_calls(chosen):
    counted = [(name, program, workers) for name, program, workers in chosen if name in FUTEX]
    if not counted:
        return
    if not shutil.which("strace"):
        print("calls to futex are not counted: strace is not installed")
        return
    rows = [("calls to futex, by foreign threads",) + tuple(str(n) for n in THREADS)]
    for name, program, workers in counted:
        calls = [futex_calls(program, workers, n) for n in THREADS]
        rows.append((f"{FUTEX[name]}, workers: {workers}",) +
                    tuple("?" if n is None else str(n) for n in calls))
    show(rows, (0,))
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these benchmarks")
    arguments = parser.parse_args()

    build = Path(arguments.build_dir).resolve()
    chosen = programs(build, arguments.names)
    samples, units = {}, {}
    for n in range(arguments.rounds):
        for name, program, workers in chosen:
            if n > 0 and name in ONCE:
                continue
            if sys.stderr.isatty():
                print(f"\r\033[Kround {n + 1} of {arguments.rounds}: {name} {workers}", end="",
                      file=sys.stderr, flush=True)
            for measure, (value, unit) in run(name, program, workers).items():
                samples.setdefault((measure, workers), []).append(value)
                units[measure] = unit
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    print(f"{arguments.rounds} rounds, load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
    table_of_one_thread(samples, units)
    table_of_workers(samples, units)
    table_of_futex_calls(chosen)
    network.measure(build, arguments.names or network.NAMES, arguments.rounds, show)


if __name__ == "__main__":
    main()
