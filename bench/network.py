"""The network benchmarks of bench/run.py: runs the servers of bench/net with the load generator of bench/net.

    echo           messages of 64 bytes there and back, on 64 and on 1,000 connections
    calls          system calls per message, by perf and by strace
    accept         connections made, used for one byte and closed
    transfer       1 GiB in one direction, with a checksum; also through proxies that splice, or read and write
    connections    the memory of 9,000 idle connections

These run only if you name them. They explain results and have no aims:

    own            the share of a server's own code in a message: in time, by perf, and in instructions, by callgrind
    uring          further features of io_uring, one at a time, in the raw server

Awake is compared with raw servers, which are written directly on the system calls. Servers run in turns within a round.
A ratio compares two servers of one round; the median of the ratios is shown. A server with one thread has one
processor, and the load generator another one. With two threads both sides share two processors, so the result is their
combined capacity.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

NAMES = ("echo", "calls", "accept", "transfer", "connections")
ASKED_FOR = ("own", "uring")
CONNECTIONS = (64, 1000)
HELD = 9000
AIM_OF_RATIO = 1.03
AIM_OF_BYTES = 250


class Missing(Exception):
    """This server does not run on this machine."""


class Kind:
    """A server: its program, its driver (None if raw), the raw server to compare with, and a last argument."""

    def __init__(self, text, program, mode, threads, driver=None, raw=None, more=None):
        self.text, self.program, self.mode, self.threads = text, program, mode, threads
        self.driver, self.raw, self.more = driver, raw, more

    @property
    def shares(self):
        return self.threads > 1


def kinds(mode="echo", threads=1, variants=True):
    """All servers for a mode, each raw server before the servers that are compared with it. `variants` adds the
    variants of an echo."""
    variants = variants and mode == "echo"
    raw = {"epoll": Kind("raw epoll", "raw_epoll", mode, threads), "uring": Kind("raw io_uring", "raw_uring", mode, threads)}
    found = []
    for driver in ("epoll", "poll", "uring"):
        ceiling = raw["uring" if driver == "uring" else "epoll"]
        if ceiling not in found:
            found.append(ceiling)
        if driver == "uring" and variants:
            found.append(Kind("... a receive linked to each send", "raw_uring", "linked", threads, raw=ceiling))
        if threads == 1:
            found.append(Kind(f"Awake {driver}, current thread", "awake", mode, 0, driver, ceiling))
            found.append(Kind("... one worker", "awake", mode, 1, driver, ceiling))
        else:
            found.append(Kind(f"Awake {driver}, two workers", "awake", mode, threads, driver, ceiling))
            if driver == "uring" and variants:
                found.append(Kind("... that do not steal", "awake", mode, threads, driver, ceiling, "per-core"))
        if variants and driver != "poll":
            found.append(Kind("... fibers", "awake", "fiber", threads if threads > 1 else 0, driver, ceiling))
    return found


class Server:
    """A running server, for the duration of a `with` block."""

    def __init__(self, build, kind, before=()):
        environment = dict(os.environ)
        if kind.driver:
            environment["AWAKE_DRIVER"] = kind.driver
        cpus = os.sched_getaffinity(0) if kind.shares else {min(os.sched_getaffinity(0))}
        self.process = subprocess.Popen(
            [*before, build / "bench" / "net" / kind.program, kind.mode, str(kind.threads),
             *([kind.more] if kind.more else [])], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        first = self.process.stdout.readline().split()
        if len(first) != 2:
            _, output = self.process.communicate()
            raise Missing(f"{kind.program} {kind.mode} {kind.driver or ''} does not run on this machine: {output.strip()}")
        self.port = first[1]

    def ask(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        lines = []
        while (line := self.process.stdout.readline()) != ".\n":
            lines.append(line.split())
        return lines

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            sys.exit("a server did not end")
        output = self.process.stderr.read()
        if "AWAKE_DRIVER" in output:
            raise Missing(output.strip())
        if self.process.returncode != 0 or output:
            sys.exit(f"a server failed with status {self.process.returncode}\n{output}")


def cpus_of_load(kind):
    every = os.sched_getaffinity(0)
    return every if kind.shares or len(every) < 2 else every - {min(every)}


def load(build, kind, server, mode, **options):
    """{measure: value} of one run of the load generator."""
    options.setdefault("threads", kind.threads if kind.shares else 1)
    options["server"] = server.process.pid
    done = subprocess.run(
        [build / "bench" / "net" / "load", mode, server.port, *(f"{k}={v}" for k, v in options.items())],
        capture_output=True, text=True, timeout=120, preexec_fn=lambda: os.sched_setaffinity(0, cpus_of_load(kind)))
    if done.returncode != 0:
        sys.exit(f"the load of {kind.program} {kind.mode} {kind.threads} {kind.driver or ''} failed with status {done.returncode}: "
                 f"{mode} {options}\n{done.stdout}{done.stderr}")
    if kind.driver and server.ask("driver") != [[kind.driver]]:
        raise Missing(f"the driver {kind.driver} does not work on this machine")
    return {name: float(value) for name, value, _ in (line.split() for line in done.stdout.splitlines())}


class Rounds:
    """Measures servers in turns: results[kind] has one dictionary for each round."""

    def __init__(self, rounds, servers, run):
        self.results, self.missing = {}, []
        for _ in range(rounds):
            for kind in servers:
                if kind in self.missing:
                    continue
                try:
                    self.results.setdefault(kind, []).append(run(kind))
                except Missing as why:
                    print(why, file=sys.stderr)
                    self.missing.append(kind)
                    self.results.pop(kind, None)

    def median(self, kind, measure):
        return statistics.median(result[measure] for result in self.results[kind])

    def ratios(self, kind, measure):
        """Ratios to the raw server of the same round; empty without one."""
        if not kind.raw or kind.raw not in self.results:
            return []
        return [one[measure] / other[measure] for one, other in zip(self.results[kind], self.results[kind.raw])]

    def ratio(self, kind, measure):
        """The median of the ratios, or None."""
        found = self.ratios(kind, measure)
        return statistics.median(found) if found else None

    def spread(self, kind, measure):
        """Half the width of the middle half of the ratios, in percent."""
        found = self.ratios(kind, measure)
        if len(found) < 3:
            return ""
        low, _, high = statistics.quantiles(found, n=4, method="inclusive")
        return f"±{50 * (high - low) / statistics.median(found):.0f} %"


def ratio_text(ratio):
    return "" if ratio is None else f"{ratio:.3f} x"


def verdict(kind, ratio):
    """Judged by the processor time of the server, which depends least on other load of the machine."""
    if ratio is None or kind.program != "awake":
        return ""
    return "met" if ratio <= AIM_OF_RATIO else "missed"


# ---- The benchmarks ------------------------------------------------------------------------------

def echo(build, rounds, show):
    for threads in (1, 2):
        for connections in CONNECTIONS:
            def run(kind):
                with Server(build, kind) as server:
                    result = load(build, kind, server, "echo", connections=connections,
                                  milliseconds=500 if connections < 1000 else 1000)
                    result["workers"] = [int(line[0]) for line in server.ask("counters")]
                return result
            servers = kinds(threads=threads)
            found = Rounds(rounds, servers, run)
            rows = [(f"echo, {connections} connections, {'one thread' if threads == 1 else 'two threads'}", "requests/s",
                     "of raw", "p50", "p99", "p99.9 us", "cpu ns", "of raw", "spread", "busy", "aim 1.03", "polls of workers")]
            for kind in servers:
                if kind not in found.results:
                    continue
                ratio = found.ratio(kind, "cpu")
                rows.append((kind.text, f"{found.median(kind, 'rate'):.0f}", ratio_text(found.ratio(kind, "rate")),
                             *(f"{found.median(kind, p):.0f}" for p in ("p50", "p99", "p99.9")),
                             f"{found.median(kind, 'cpu'):.0f}", ratio_text(ratio), found.spread(kind, "cpu"),
                             f"{found.median(kind, 'busy'):.0f} %", verdict(kind, ratio), shares(found.results[kind][-1]["workers"])))
            show(rows, (0, 10, 11))
            print()


def shares(polls):
    """The share of each worker in the polls of tasks, in the last round."""
    return " : ".join(f"{100 * n / sum(polls):.0f} %" for n in polls) if len(polls) > 1 and sum(polls) else ""


# System calls that are made for messages. Servers make other calls only at their start and end.
CALLS = ("read", "write", "recvfrom", "sendto", "epoll_wait", "epoll_pwait2", "poll", "ppoll", "futex", "io_uring_enter",
         "sched_yield", "accept4", "close", "fcntl", "getsockopt", "setsockopt", "epoll_ctl")


def perf_counts():
    """Whether perf can count system calls on this machine."""
    if not shutil.which("perf"):
        return False
    done = subprocess.run(["perf", "stat", "-x,", "-e", "syscalls:sys_enter_read", "true"], capture_output=True, text=True)
    return done.returncode == 0 and re.search(r"^\d+,,syscalls:sys_enter_read", done.stderr, re.MULTILINE)


@contextlib.contextmanager
def perf(server, *arguments):
    """Runs perf on a server for the duration of the `with` block, and then appends its output to the list. perf takes
    a while to start, and earlier events would be missing, so this waits until it acknowledges the start."""
    control, enable = os.pipe()
    acknowledged, acknowledge = os.pipe()
    output = []
    process = subprocess.Popen(["perf", *arguments, "-p", str(server.process.pid), "-D", "-1", f"--control=fd:{control},{acknowledge}"],
                                pass_fds=(control, acknowledge), stderr=subprocess.PIPE, text=True)
    os.close(control)
    os.close(acknowledge)
    try:
        os.write(enable, b"enable\n")
        os.read(acknowledged, 16)
        yield output
    finally:
        process.send_signal(signal.SIGINT)
        output.append(process.communicate()[1])
        os.close(enable)
        os.close(acknowledged)


def calls_by_perf(build, kind, connections):
    """{system call: number per message}, without slowing down the server."""
    with Server(build, kind) as server:
        with perf(server, "stat", "-x,", "-e", ",".join(f"syscalls:sys_enter_{name}" for name in CALLS)) as output:
            result = load(build, kind, server, "echo", connections=connections, count=60000)
    found = re.findall(r"^(\d+),,syscalls:sys_enter_(\w+)", output[0], re.MULTILINE)
    return {name: int(n) / result["count"] for n, name in found}


def calls_by_strace(build, kind, connections):
    """{system call: number per message}: the difference of a long and a short run, without the start and the end."""
    few, many = (count_by_strace(build, kind, connections, n) for n in (6000, 26000))
    return {name: (n - few.get(name, 0)) / 20000 for name, n in many.items()}


def count_by_strace(build, kind, connections, messages):
    with tempfile.NamedTemporaryFile("r") as report:
        with Server(build, kind, ["strace", "-f", "-c", "-o", report.name]) as server:
            load(build, kind, server, "echo", connections=connections, count=messages)
        found = {}
        for line in report:
            words = line.split()
            if len(words) >= 5 and re.fullmatch(r"[0-9.]+", words[0]) and words[-1] != "total":
                found[words[-1]] = int(words[3])
        return found


def ways_to_count():
    """{name: function}. perf does not slow down a server. strace does, so much that messages queue up: the server
    finds more of them at a time, and makes fewer calls."""
    ways = {}
    if perf_counts():
        ways["perf"] = calls_by_perf
    if shutil.which("strace"):
        ways["strace -c"] = calls_by_strace
    return ways


def calls_text(each):
    """The total number of calls, and the number of each."""
    names = sorted((n for n in each if each[n] >= 0.005), key=lambda n: -each[n])
    return f"{sum(each[n] for n in names):.2f}", ", ".join(f"{n} {each[n]:.2f}" for n in names)


def calls(build, rounds, show):
    ways = ways_to_count()
    if not ways:
        print("system calls are not counted: neither perf nor strace works\n")
        return
    for threads in (1, 2):
        rows = [(f"system calls for a message, {'one thread' if threads == 1 else 'two threads'}", "connections",
                 *(cell for way in ways for cell in (way, "")))]
        for kind in kinds(threads=threads):
            for connections in CONNECTIONS:
                try:
                    counted = [calls_text(count(build, kind, connections)) for count in ways.values()]
                except Missing:
                    continue
                rows.append((kind.text, str(connections), *(cell for each in counted for cell in each)))
        show(rows, (0, *range(3, len(rows[0]), 2)))
        print()


def accept(build, rounds, show):
    for threads in (1, 2):
        def run(kind):
            with Server(build, kind) as server:
                return load(build, kind, server, "accept", connections=64, milliseconds=500)
        servers = kinds(threads=threads, variants=False)
        servers.append(Kind("... accepting ahead", "awake", "echo", threads if threads > 1 else 0, "uring", servers[-1].raw, "ahead"))
        found = Rounds(rounds, servers, run)
        rows = [(f"connections made and closed, {'one thread' if threads == 1 else 'two threads'}", "connections/s",
                 "of raw", "p50", "p99 us", "cpu ns", "of raw", "busy")]
        for kind in servers:
            if kind in found.results:
                rows.append((kind.text, f"{found.median(kind, 'rate'):.0f}", ratio_text(found.ratio(kind, "rate")),
                             f"{found.median(kind, 'p50'):.0f}", f"{found.median(kind, 'p99'):.0f}",
                             f"{found.median(kind, 'cpu'):.0f}", ratio_text(found.ratio(kind, "cpu")),
                             f"{found.median(kind, 'busy'):.0f} %"))
        show(rows, (0,))
        print()


def transfer(build, rounds, show):
    def run(kind):
        with Server(build, kind) as server:
            return load(build, kind, server, "transfer", bytes=1 << 30)
    servers = [kind for kind in kinds(mode="sink") if kind.threads != 1 or kind.program != "awake"]
    found = Rounds(rounds, servers, run)
    rows = [("1 GiB in one direction", "MiB/s", "of raw", "cpu ms", "of raw")]
    for kind in servers:
        if kind in found.results:
            rows.append((kind.text, f"{found.median(kind, 'rate'):.0f}", ratio_text(found.ratio(kind, "rate")),
                         f"{found.median(kind, 'cpu'):.0f}", ratio_text(found.ratio(kind, "cpu"))))
    show(rows, (0,))
    print()
    proxies(build, rounds, show)


def proxies(build, rounds, show):
    """A transfer through a proxy that lets the kernel move the bytes (splice), and one that reads and writes them."""
    servers = []
    for driver in ("epoll", "poll", "uring"):
        buffered = Kind(f"Awake {driver}, read and written", "awake", "buffered", 0, driver)
        servers += [buffered, Kind("... spliced", "awake", "proxy", 0, driver, buffered)]
    found = Rounds(rounds, servers, lambda proxy: through(build, proxy, Kind("", "raw_epoll", "sink", 1)))
    rows = [("1 GiB through a proxy, a buffer of 64 KiB", "MiB/s", "of the first", "cpu ms of the proxy", "of the first", "spread")]
    for kind in servers:
        if kind in found.results:
            rows.append((kind.text, f"{found.median(kind, 'rate'):.0f}", ratio_text(found.ratio(kind, "rate")),
                         f"{found.median(kind, 'cpu'):.0f}", ratio_text(found.ratio(kind, "cpu")), found.spread(kind, "cpu")))
    show(rows, (0,))
    print()


def through(build, proxy, kind):
    """A transfer through a proxy. The processor time is that of the proxy. Three processes share two processors."""
    with Server(build, kind) as server:
        proxy.more = server.port
        with Server(build, proxy) as middle:
            return load(build, proxy, middle, "transfer", bytes=1 << 30)


def connections(build, rounds, show):
    """Measured once, because bytes do not vary."""
    rows = [(f"{HELD} idle connections, bytes each", "in the heap", "resident", f"aim {AIM_OF_BYTES}")]
    for driver in ("epoll", "poll", "uring"):
        for text, mode, threads in ((f"Awake {driver}, no buffer while it waits", "lean", 0), ("... two workers", "lean", 2),
                                    ("... a buffer of 1,024 in the frame", "echo", 0), ("... fibers", "fiber", 0)):
            try:
                heap, resident = held(build, Kind(text, "awake", mode, threads, driver))
            except Missing:
                break
            rows.append((text, f"{heap:.0f}", f"{resident:.0f}",
                         "" if mode != "lean" else "met" if heap <= AIM_OF_BYTES else "missed"))
    show(rows, (0, 3))
    print()


def held(build, kind):
    """Growth of the heap and of the process per connection, in bytes."""
    with Server(build, kind) as server:
        (before,) = server.ask("memory")
        holder = subprocess.Popen([build / "bench" / "net" / "load", "hold", server.port, f"connections={HELD}"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if not holder.stdout.readline().startswith("holding"):
            sys.exit(f"{HELD} connections could not be made")
        (after,) = server.ask("memory")
        holder.stdin.close()
        holder.wait(20)
    return [(int(a) - int(b)) / HELD for a, b in zip(after, before)]


def own_share(build, kind, connections):
    """The shares of the program and of libraries in the processor time of the server. The rest is the kernel's."""
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "perf.data")
        with Server(build, kind) as server:
            with perf(server, "record", "-q", "-e", "cpu-clock", "-F", "5000", "-o", data):
                load(build, kind, server, "echo", connections=connections, milliseconds=1500)
        report = subprocess.run(["perf", "report", "-q", "-i", data, "--stdio", "--sort", "dso"], capture_output=True, text=True)
    found = {name: float(share) for share, name in re.findall(r"([0-9.]+)%\s+(\S+)", report.stdout)}
    itself = found.get(kind.program, 0)
    return itself, sum(share for name, share in found.items() if not name.startswith("[")) - itself


def own_instructions(build, kind, connections):
    """Instructions per message outside the kernel: the difference of a long and a short run. As with strace, the slow
    server waits less often."""
    few, many = (count_instructions(build, kind, connections, n) for n in (6000, 26000))
    return (many - few) / 20000


def count_instructions(build, kind, connections, messages):
    with tempfile.NamedTemporaryFile("r") as report:
        with Server(build, kind, ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                                  f"--log-file={report.name}"]) as server:
            load(build, kind, server, "echo", connections=connections, count=messages)
        return int(re.search(r"Collected : (\d+)", report.read())[1])


def own(build, rounds, show):
    if not shutil.which("perf"):
        print("a server's own code is not measured: perf is not installed\n")
        return
    rows = [("own code for a message, one thread", "connections", "of the time", "libraries", "instructions")]
    for kind in kinds(variants=False):
        for connections in CONNECTIONS:
            try:
                found = [own_share(build, kind, connections) for _ in range(rounds)]
            except Missing:
                continue
            # valgrind does not support all of io_uring.
            counted = shutil.which("valgrind") and kind.program != "raw_uring" and kind.driver != "uring"
            rows.append((kind.text, str(connections), *(f"{statistics.median(column):.1f} %" for column in zip(*found)),
                         f"{own_instructions(build, kind, connections):.0f}" if counted else ""))
    show(rows, (0,))
    print()


# Variants of the raw server: (text, arguments).
BASE = ("multishot accept, SINGLE_ISSUER, DEFER_TASKRUN", "nothing")
AGAIN = ("the same again: the noise", "nothing")
TRIED = (("an accept for each connection, not multishot", "accept-once"),
         ("... 16 of them under way", "accept-many"),
         ("closed by the ring", "close"),
         ("direct descriptors, closed by the ring", "direct"),
         ("POLL_FIRST: a receive waits before it looks", "poll-first"),
         ("a wait, then a receive into a buffer made for it", "ready"),
         ("provided buffers", "provided"),
         ("... and multishot receive", "multishot"),
         ("... and direct descriptors, closed by the ring", "multishot,direct"),
         ("COOP_TASKRUN, TASKRUN_FLAG", "coop"),
         ("no flags of the ring", "no-flags"))
WORKLOADS = (("echo, 64 connections", "echo", {"connections": 64, "milliseconds": 250, "warmup": 60}),
             ("echo, 1,000 connections", "echo", {"connections": 1000, "milliseconds": 350, "warmup": 100}),
             ("connect, a byte, close", "accept", {"connections": 64, "milliseconds": 250, "warmup": 60}))


def within(values):
    """The 95 % confidence interval of the median."""
    n = len(values)
    rank = max(0, int(n / 2 - 0.98 * n ** 0.5))
    return sorted(values)[rank], sorted(values)[n - 1 - rank]


def what_it_brings(ratios, noise):
    low, high = within(ratios)
    noise_low, noise_high = within(noise)
    return "a gain" if high < noise_low else "a loss" if low > noise_high else "nothing beyond the noise"


def compare(build, servers, bases, rounds, mode, options):
    """The processor time per operation, {kind: [one for each round]}, and its ratio to the median of the bases of that
    round. All servers run all the time. Their turns are short, and in a different order in each round, so that other
    load affects all of them."""
    times, ratios = {kind: [] for kind in servers}, {kind: [] for kind in servers}
    with contextlib.ExitStack() as stack:
        running = {kind: stack.enter_context(Server(build, kind)) for kind in servers}
        for _ in range(rounds):
            turns = random.sample(servers, len(servers))
            found = {kind: load(build, kind, running[kind], mode, **options)["cpu"] for kind in turns}
            base = statistics.median(found[kind] for kind in bases)
            for kind in servers:
                times[kind].append(found[kind])
                ratios[kind].append(found[kind] / base)
    return times, ratios


def uring(build, rounds, show):
    rounds = max(rounds, 9)
    bases = [Kind(BASE[0], "raw_uring", "echo", 1, more=BASE[1]) for _ in range(3)]
    again, *others = (Kind(text, "raw_uring", "echo", 1, more=words) for text, words in (AGAIN, *TRIED))
    try:
        for text, mode, options in WORKLOADS:
            times, ratios = compare(build, [*bases, again, *others], bases, rounds, mode, options)
            rows = [(f"raw io_uring, {text}, {rounds} rounds", "cpu ns", "of base", "the median is within", "it brings"),
                    (bases[0].text, f"{statistics.median(t for kind in bases for t in times[kind]):.0f}", "", "", "")]
            for kind in (again, *others):
                rows.append((kind.text, f"{statistics.median(times[kind]):.0f}", ratio_text(statistics.median(ratios[kind])),
                             "{:.3f} to {:.3f}".format(*within(ratios[kind])),
                             "" if kind is again else what_it_brings(ratios[kind], ratios[again])))
            show(rows, (0, 4))
            print(flush=True)
        rows = [(f"raw io_uring, {HELD} idle connections, bytes each", "in the heap", "resident")]
        for kind in (bases[0], *(kind for kind in others if kind.more in ("ready", "provided", "multishot", "direct"))):
            rows.append((kind.text, *(f"{n:.0f}" for n in held(build, kind))))
        show(rows, (0,))
        print()
    except Missing as why:
        print(why, file=sys.stderr)


def measure(build, names, rounds, show):
    for name, run in (("echo", echo), ("calls", calls), ("accept", accept), ("transfer", transfer),
                      ("connections", connections), ("own", own), ("uring", uring)):
        if name in names:
            run(build, rounds, show)
