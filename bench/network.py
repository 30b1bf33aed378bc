"""The measurements of network I/O, for bench/run.py: the servers of bench/net under the load generator of bench/net.

    echo           messages of 64 bytes there and back, on 64 and on 1,000 connections
    calls          the system calls for each of these messages, by perf and by strace
    accept         connections made, used for one byte and closed
    transfer       1 GiB in one direction, with a checksum; also through proxies that splice, or read and write
    connections    the memory of 9,000 connections that have nothing to say

Only when they are asked for, because they explain and do not judge:

    own            how much of a message is a server's own code: of its time, by perf, and in instructions, by callgrind
    uring          what else io_uring offers, each by itself, in the server written by hand

Awake stands beside servers written by hand, in turns within a round; a ratio is that of two neighbours of one round, and the
median of these is shown. A server with one thread has a processor for itself, and the load generator another one. With two
threads all share the two processors there are, and what is shown is what both sides together can do.
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
    """This server does not run here."""


class Kind:
    """A server: its program, its driver (None: none of Awake's), the one it is compared with, and a last argument."""

    def __init__(self, text, program, mode, threads, driver=None, raw=None, more=None):
        self.text, self.program, self.mode, self.threads = text, program, mode, threads
        self.driver, self.raw, self.more = driver, raw, more

    @property
    def shares(self):
        return self.threads > 1


def kinds(mode="echo", threads=1, variants=True):
    """All servers that do the same, the one to compare with before those that are compared; with the variants of an
    echo, or without."""
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
    """One that runs, for as long as the `with` does."""

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
            _, said = self.process.communicate()
            raise Missing(f"{kind.program} {kind.mode} {kind.driver or ''} does not run here: {said.strip()}")
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
        said = self.process.stderr.read()
        if "AWAKE_DRIVER" in said:
            raise Missing(said.strip())
        if self.process.returncode != 0 or said:
            sys.exit(f"a server failed with status {self.process.returncode}\n{said}")


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
        raise Missing(f"the driver {kind.driver} does not work here")
    return {name: float(value) for name, value, _ in (line.split() for line in done.stdout.splitlines())}


class Rounds:
    """What was measured of some servers, in turns: results[kind] has one dictionary for each round."""

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
        """To the raw one of the same round; empty where there is none."""
        if not kind.raw or kind.raw not in self.results:
            return []
        return [one[measure] / other[measure] for one, other in zip(self.results[kind], self.results[kind.raw])]

    def ratio(self, kind, measure):
        """The median, or None."""
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
    """By the processor time of the server: it does not depend on what else the machine does."""
    if ratio is None or kind.program != "awake":
        return ""
    return "met" if ratio <= AIM_OF_RATIO else "missed"


# ---- The measurements -----------------------------------------------------------------------------------

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
    """How the polls of tasks are spread over the workers, in the last round."""
    return " : ".join(f"{100 * n / sum(polls):.0f} %" for n in polls) if len(polls) > 1 and sum(polls) else ""


# What servers call again and again; the others are at their beginning and end.
CALLS = ("read", "write", "recvfrom", "sendto", "epoll_wait", "epoll_pwait2", "poll", "ppoll", "futex", "io_uring_enter",
         "sched_yield", "accept4", "close", "fcntl", "getsockopt", "setsockopt", "epoll_ctl")


def perf_counts():
    """Whether perf can count system calls here."""
    if not shutil.which("perf"):
        return False
    done = subprocess.run(["perf", "stat", "-x,", "-e", "syscalls:sys_enter_read", "true"], capture_output=True, text=True)
    return done.returncode == 0 and re.search(r"^\d+,,syscalls:sys_enter_read", done.stderr, re.MULTILINE)


@contextlib.contextmanager
def perf(server, *arguments):
    """Watches a server for as long as the `with` does. What perf has to say is then in the list. It takes a while to begin, and
    tells when it has: what a server did before would be missing."""
    control, tell = os.pipe()
    hear, answer = os.pipe()
    said = []
    watching = subprocess.Popen(["perf", *arguments, "-p", str(server.process.pid), "-D", "-1", f"--control=fd:{control},{answer}"],
                                pass_fds=(control, answer), stderr=subprocess.PIPE, text=True)
    os.close(control)
    os.close(answer)
    try:
        os.write(tell, b"enable\n")
        os.read(hear, 16)
        yield said
    finally:
        watching.send_signal(signal.SIGINT)
        said.append(watching.communicate()[1])
        os.close(tell)
        os.close(hear)


def calls_by_perf(build, kind, connections):
    """{system call: number for a message}, of a server that is not slowed down by being watched."""
    with Server(build, kind) as server:
        with perf(server, "stat", "-x,", "-e", ",".join(f"syscalls:sys_enter_{name}" for name in CALLS)) as said:
            result = load(build, kind, server, "echo", connections=connections, count=60000)
    found = re.findall(r"^(\d+),,syscalls:sys_enter_(\w+)", said[0], re.MULTILINE)
    return {name: int(n) / result["count"] for n, name in found}


def calls_by_strace(build, kind, connections):
    """The difference of a longer and a shorter run: what begins and ends a server is in both."""
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
    """{name: how}. By perf a server runs as ever. strace makes it so slow that messages wait for it: then it finds more of them
    at a time, and needs fewer calls."""
    ways = {}
    if perf_counts():
        ways["perf"] = calls_by_perf
    if shutil.which("strace"):
        ways["strace -c"] = calls_by_strace
    return ways


def calls_text(each):
    """How many in all, and which."""
    names = sorted((n for n in each if each[n] >= 0.005), key=lambda n: -each[n])
    return f"{sum(each[n] for n in names):.2f}", ", ".join(f"{n} {each[n]:.2f}" for n in names)


def calls(build, rounds, show):
    ways = ways_to_count()
    if not ways:
        print("system calls are not counted: there is neither perf nor strace\n")
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
    """The same by way of a proxy that lets the kernel move the bytes (splice), and one that reads and writes them."""
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
    """A transfer by way of a proxy; the processor time is the proxy's. Three processes share two processors."""
    with Server(build, kind) as server:
        proxy.more = server.port
        with Server(build, proxy) as middle:
            return load(build, proxy, middle, "transfer", bytes=1 << 30)


def connections(build, rounds, show):
    """Measured once: bytes do not vary."""
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
    """By how many bytes the heap and the process grow for each connection."""
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
    """The share of the program itself in the processor time of the server, and that of libraries; the rest is the kernel's."""
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
    """For a message, outside the kernel; by a longer and a shorter run, as by strace, and like that with fewer waits."""
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
        print("a server's own code is not measured: there is no perf\n")
        return
    rows = [("own code for a message, one thread", "connections", "of the time", "libraries", "instructions")]
    for kind in kinds(variants=False):
        for connections in CONNECTIONS:
            try:
                found = [own_share(build, kind, connections) for _ in range(rounds)]
            except Missing:
                continue
            # valgrind does not know all of io_uring.
            counted = shutil.which("valgrind") and kind.program != "raw_uring" and kind.driver != "uring"
            rows.append((kind.text, str(connections), *(f"{statistics.median(column):.1f} %" for column in zip(*found)),
                         f"{own_instructions(build, kind, connections):.0f}" if counted else ""))
    show(rows, (0,))
    print()


# What is tried out in the raw server, by the words that it knows.
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
    """Between which two values their median is, of all rounds there could be, in 95 of 100 cases."""
    n = len(values)
    rank = max(0, int(n / 2 - 0.98 * n ** 0.5))
    return sorted(values)[rank], sorted(values)[n - 1 - rank]


def what_it_brings(ratios, noise):
    low, high = within(ratios)
    least, most = within(noise)
    return "a gain" if high < least else "a loss" if low > most else "nothing beyond the noise"


def compare(build, servers, bases, rounds, mode, options):
    """The processor time for an operation, {kind: one for each round}, and its ratio to the median of the bases of that round. All
    servers run all the time; their turns are short, and in another order in each round: so little else has changed between them."""
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
