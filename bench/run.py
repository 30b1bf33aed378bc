#!/usr/bin/env python3
"""Runs the benchmarks and prints their medians beside what is aimed at.

    bench/run.py --build-dir build/gcc              everything, 5 rounds
    bench/run.py --build-dir build/gcc --rounds 15 spawn yield

The rounds are interleaved: each runs every program once, so that a machine that is busy for a while
spoils a round and not a program. The spread is that of the middle half of the rounds. Programs are built
already (`make bench` does both), with the diagnostics on, as users get them.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What each measurement means, and its aim on an ordinary x86-64 machine: (text, aim or None).
MEASURES = {
    "spawn/at-once": ("spawn and join 1,000,000 tasks, all at once, each", 80),
    "spawn/one-by-one": ("spawn and join 1,000,000 tasks, one by one, each", 45),
    "yield/yield": ("1,000 tasks yield 1,000 times, a yield", 15),
    "notify/round": ("two tasks exchange 1,000,000 notifications, a round", None),
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
}


def programs(build, wanted):
    found = [source.stem for source in sorted((ROOT / "bench").glob("*.c"))]
    unknown = set(wanted) - set(found)
    if unknown:
        sys.exit(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(found)}")
    return [(name, build / "bench" / name) for name in found if not wanted or name in wanted]


def run(name, program):
    """{measure: (value, unit)} of one run."""
    done = subprocess.run([program], capture_output=True, text=True)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"{name} failed with status {done.returncode}\n{done.stdout}{done.stderr}")
    results = {}
    for line in done.stdout.splitlines():
        measure, value, unit = line.split()
        results[f"{name}/{measure}"] = (float(value), unit)
    return results


def number(value):
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}" if value < 100 else f"{value:.1f}"


def spread(values):
    """Half the width of the middle half, in percent of the median."""
    middle = statistics.median(values)
    if len(values) < 2 or middle == 0:
        return ""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"±{50 * (high - low) / middle:.0f} %"


def table(samples, units):
    order = [m for m in MEASURES if m in samples] + [m for m in samples if m not in MEASURES]
    rows = [("measurement", "median", "", "spread", "best", "aim", "")]
    for measure in order:
        values, (text, aim) = samples[measure], MEASURES.get(measure, (measure, None))
        median = statistics.median(values)
        verdict = "" if aim is None else "met" if median <= aim else f"{median / aim:.2f} x"
        rows.append((text, number(median), units[measure], spread(values), number(min(values)),
                     "" if aim is None else str(aim), verdict))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for n, row in enumerate(rows):
        cells = [cell.ljust(width) if i in (0, 2, 6) else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())
        if n == 0:
            print("-" * (sum(widths) + 2 * (len(widths) - 1)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these benchmarks")
    arguments = parser.parse_args()

    chosen = programs(Path(arguments.build_dir).resolve(), arguments.names)
    samples, units = {}, {}
    for n in range(arguments.rounds):
        for name, program in chosen:
            if sys.stderr.isatty():
                print(f"\r\033[Kround {n + 1} of {arguments.rounds}: {name}", end="", file=sys.stderr, flush=True)
            for measure, (value, unit) in run(name, program).items():
                samples.setdefault(measure, []).append(value)
                units[measure] = unit
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    print(f"{arguments.rounds} rounds, load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
    table(samples, units)


if __name__ == "__main__":
    main()
