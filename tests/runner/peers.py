"""The examples that are servers, and programs of others that talk to them: nc, socat, curl, iperf3. On each driver, on one
thread and on two workers."""

import http.server
import json
import os
import random
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time

from .process import (DEFAULT_LIMIT, DRIVERS, Failed, Skipped, Test, describe, join_text, kill_group, must_run, running,
                      running_lock)

PLACES = {"_on_one_thread": {"AWAKE_FLAVOUR": "current"},
          "_on_2_workers": {"AWAKE_FLAVOUR": "multi", "AWAKE_WORKERS": "2"}}


# ---- Processes that stay while a test talks to them ----------------------------------------------


class Talker:
    """A process, what is said to it and what it says, line by line. It is ended with the block that began it, and must
    have lived until then, unless it was asked to go, and have had nothing to complain of."""

    def __init__(self, name, command, limit, env=None):
        self.name, self.command, self.limit, self.env = name, command, limit, env
        self.text = b""

    def __enter__(self):
        self.complaints = tempfile.TemporaryFile()
        self.scratch = tempfile.TemporaryDirectory(prefix="awake-peers-")
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.complaints, env=dict(os.environ, **(self.env or {})),
                                        cwd=self.scratch.name, bufsize=0, start_new_session=True)
        with running_lock:
            running.add(self.process.pid)
        return self

    def __exit__(self, problem, value, _):
        early = self.process.poll()
        kill_group(self.process.pid)
        self.process.wait()
        with running_lock:
            running.discard(self.process.pid)
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()
        self.complaints.seek(0)
        said = self.complaints.read().decode(errors="replace")
        self.complaints.close()
        self.scratch.cleanup()
        if early not in (None, 0):
            raise Failed(join_text(str(value or ""), f"{self.name} ended: {describe(early)}", said))
        if said.strip():
            raise Failed(join_text(str(value or ""), f"{self.name} complained:", said))

    def says(self, line):
        self.process.stdin.write(line.encode() + b"\n")

    def hears(self):
        """The next line that it prints."""
        deadline = time.monotonic() + self.limit
        while b"\n" not in self.text:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise Failed(f"{self.name} said nothing for {self.limit:g} s; before: {self.text!r}")
            if not (chunk := os.read(self.process.stdout.fileno(), 65536)):
                raise Failed(f"{self.name} has closed its output; before: {self.text!r}")
            self.text += chunk
        line, _, self.text = self.text.partition(b"\n")
        return line.decode(errors="replace")

    def must_hear(self, wanted):
        if (line := self.hears()) != wanted:
            raise Failed(f"{self.name} printed {line!r} and not {wanted!r}")


class Server(Talker):
    """An example that listens, and waits by the driver that it was asked to. When its peers are gone it has no socket and
    no pipe more than in the beginning."""

    def __enter__(self):
        super().__enter__()
        try:
            line = self.hears()
            if not line.startswith("listening at "):
                raise Failed(f"the server said {line!r}")
        except Failed as problem:
            self.__exit__(Failed, problem, None)
            raise
        self.address = line[len("listening at "):]
        self.port = self.address.rpartition(":")[2]
        self.at_first = self.open_ends()
        return self

    def descriptors(self):
        """What each of them is: "socket:[123]", "anon_inode:[eventpoll]"."""
        folder = f"/proc/{self.process.pid}/fd"
        for fd in os.listdir(folder):
            try:
                yield os.readlink(f"{folder}/{fd}")
            except FileNotFoundError:  # closed meanwhile
                pass

    def open_ends(self):
        """How many sockets and pipes it has."""
        kinds = [found.partition(":")[0] for found in self.descriptors()]
        # The driver poll(2) has a pipe of its own for each thread.
        return kinds.count("socket") + (kinds.count("pipe") if self.env["AWAKE_DRIVER"] != "poll" else 0)

    def driver(self):
        found = set(self.descriptors())
        if "anon_inode:[io_uring]" in found:
            return "uring"
        return "epoll" if "anon_inode:[eventpoll]" in found else "poll"

    def __exit__(self, problem, value, trace):
        left, driver = 0, self.env["AWAKE_DRIVER"]
        if not problem and self.process.poll() is None:
            driver = self.driver()
            deadline = time.monotonic() + self.limit
            while (left := self.open_ends() - self.at_first) > 0 and time.monotonic() < deadline:
                time.sleep(0.005)
        super().__exit__(problem, value, trace)
        if left > 0:
            raise Failed(f"{self.name} has {left} sockets or pipes more than in the beginning")
        if driver != self.env["AWAKE_DRIVER"]:
            raise Failed(f"{self.name} used {driver} and not {self.env['AWAKE_DRIVER']}")


class Bench:
    """Where the tests of one driver and flavour begin what they need."""

    def __init__(self, settings, driver, place):
        settings.need_driver(driver)
        self.settings = settings
        self.limit = DEFAULT_LIMIT * settings.slowness
        self.env = {**settings.env, "AWAKE_DRIVER": driver, **PLACES[place]}

    def example(self, name, *arguments):
        program = self.settings.build / "examples" / name
        return Server(name, [*self.settings.wrapper, program, *arguments], self.limit, self.env)

    def talker(self, *command):
        need(command[0])
        return Talker(command[0], command, self.limit)

    def run(self, *command, stdin=""):
        need(command[0])
        return must_run(command, limit=self.limit, stdin=stdin)


def need(program):
    if not shutil.which(program):
        raise Skipped(f"{program} is not installed")


def same(got, wanted, what):
    if got != wanted:
        at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
        raise Failed(f"{what}: {len(got)} bytes instead of {len(wanted)}, different from byte {at} on")


def much_text():
    chosen = random.Random(1)
    return "".join(f"{chosen.getrandbits(256):064x}\n" for _ in range(16000))


# ---- The tests -----------------------------------------------------------------------------------


def nc_and_the_echo_server(bench):
    text = much_text()
    with bench.example("81a_echo", "0") as server:
        where = server.port
        # -N: say that this was all, and wait for the rest.
        same(bench.run("nc", "-N", "127.0.0.1", where, stdin=text), text, "the echo")
        # One that goes away without a word, with data on its way, does not disturb the next one.
        with bench.talker("nc", "127.0.0.1", where) as rude:
            rude.says(text[:100000])
            rude.hears()
        same(bench.run("nc", "-N", "127.0.0.1", where, stdin="again\n"), "again\n", "the echo")


def socat_and_the_echo_server(bench):
    text = much_text()
    with bench.example("81b_echo_fiber", "0") as server:
        same(bench.run("socat", "-t10", "-", f"TCP:127.0.0.1:{server.port}", stdin=text), text, "the echo")


def wait_for_the_end_of(path, limit):
    """Until nobody listens there: the kernel gives back what io_uring holds of a killed process only a while after its end."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                return
        time.sleep(0.002)
    raise Failed(f"somebody still listens at {path}")


def socat_over_a_unix_socket(bench):
    text = much_text()
    with tempfile.TemporaryDirectory(prefix="awake-peers-") as folder:
        path = f"{folder}/echo.sock"
        for _ in ("fresh", "left by one that was killed"):
            with bench.example("81a_echo", f"unix:{path}") as server:
                same(server.address, f"unix:{path}", "the address")
                same(bench.run("socat", "-t10", "-", f"UNIX-CONNECT:{path}", stdin=text), text, "the echo")
            wait_for_the_end_of(path, bench.limit)


def socat_over_ipv6(bench):
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError as problem:
        raise Skipped(f"there is no ::1 here: {problem}")
    text = much_text()
    with bench.example("81b_echo_fiber", "[::1]:0") as server:
        same(bench.run("socat", "-t10", "-", f"TCP6:[::1]:{server.port}", stdin=text), text, "the echo")


def socat_and_datagrams(bench):
    with bench.example("85_udp_ping", "serve", "0") as server:
        with bench.talker("socat", "-", f"UDP4:127.0.0.1:{server.port}") as peer:
            for text in ("ping 1", "a" * 400, "ping 3"):
                peer.says(text)
                peer.must_hear(text)


def nc_and_socat_in_a_chat(bench):
    with bench.example("82_chat", "0") as server:
        where = server.port
        with bench.talker("nc", "127.0.0.1", where) as ann, \
                bench.talker("socat", "-", f"TCP:127.0.0.1:{where}") as bob:
            ann.must_hear("Your name?")
            ann.says("ann")
            ann.must_hear("Welcome, ann")
            bob.must_hear("Your name?")
            bob.says("bob")
            bob.must_hear("Welcome, bob")
            ann.must_hear("bob has come")
            for i in range(100):
                ann.says(f"what is {i}?")
                bob.must_hear(f"ann: what is {i}?")
                bob.says(f"it is {i}")
                ann.must_hear(f"bob: it is {i}")
            bob.process.stdin.close()  # socat says that this was all
            ann.must_hear("bob has gone")


def a_chat_with_a_guest_whose_name_is_a_zero(bench):
    with bench.example("82_chat", "0") as server:
        where = server.port
        with bench.talker("nc", "127.0.0.1", where) as ann, \
                bench.talker("socat", "-", f"TCP:127.0.0.1:{where}") as nobody:
            ann.must_hear("Your name?")
            ann.says("ann")
            ann.must_hear("Welcome, ann")
            nobody.must_hear("Your name?")
            nobody.says("\0")
            nobody.must_hear("Welcome, ")
            ann.must_hear(" has come")
            nobody.process.stdin.close()
            ann.must_hear(" has gone")


def curl_and_the_http_server(bench):
    with bench.example("86_http", "0") as server:
        base = f"http://127.0.0.1:{server.port}"
        curl = ["curl", "--silent", "--show-error", "--noproxy", "*", "--max-time", f"{bench.limit:g}"]
        got = bench.run(*curl, "--write-out", "%{http_code} %{content_type}\n", f"{base}/some/page?x=1")
        same(got, "You asked for /some/page?x=1\n200 text/plain\n", "the page")
        # Many at once, each on a connection of its own.
        got = bench.run(*curl, "--parallel", f"{base}/[1-40]")
        same(sorted(got.splitlines()), sorted(f"You asked for /{i}" for i in range(1, 41)), "the pages")
        got = bench.run(*curl, "--request", "BREW", "--output", "/dev/null", "--write-out", "%{http_code}", base)
        same(got, "400", "the status")


class Page(http.server.BaseHTTPRequestHandler):
    """A server that others have written."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def curl_through_the_proxy(bench):
    text = much_text()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as web:
        thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            with bench.example("83_proxy", "0", "localhost", str(web.server_address[1])) as proxy:
                url = f"http://127.0.0.1:{proxy.port}"
                # There and back, three times on one connection.
                got = bench.run("curl", "--silent", "--show-error", "--noproxy", "*", "--max-time", f"{bench.limit:g}",
                                "--header", "Expect:", "--data-binary", "@-", f"{url}/1", f"{url}/2", f"{url}/3", stdin=text)
                same(got, text * 3, "the body")
        finally:
            web.shutdown()
            thread.join()


def iperf3_through_the_proxy(bench, *direction):
    need("iperf3")
    with socket.socket() as free:  # it cannot choose one by itself
        free.bind(("127.0.0.1", 0))
        iperf_port = str(free.getsockname()[1])
    with bench.talker("iperf3", "--server", "--one-off", "--bind", "127.0.0.1", "--port", iperf_port, "--forceflush") as server, \
            bench.example("83_proxy", "0", "127.0.0.1", iperf_port) as proxy:
        while "listening" not in server.hears():
            pass
        said = json.loads(bench.run("iperf3", "--client", "127.0.0.1", "--port", proxy.port, "--time", "1", "--json",
                                    *direction))
        received, sent = (said["end"][which]["bytes"] for which in ("sum_received", "sum_sent"))
        if "error" in said or not 1000000 < received <= sent:
            raise Failed(join_text(f"{sent} bytes were sent and {received} received", json.dumps(said, indent=1)))


def iperf3_through_the_proxy_backwards(bench):
    iperf3_through_the_proxy(bench, "--reverse")


TALKS = [iperf3_through_the_proxy, iperf3_through_the_proxy_backwards, nc_and_the_echo_server, socat_and_the_echo_server,
         socat_over_a_unix_socket, socat_over_ipv6, socat_and_datagrams, nc_and_socat_in_a_chat,
         a_chat_with_a_guest_whose_name_is_a_zero, curl_and_the_http_server, curl_through_the_proxy]


def peer_tests(settings):
    for talk in TALKS:
        for driver in DRIVERS:
            for place in PLACES:
                yield Test("peers", f"{talk.__name__}_by_{driver}{place}",
                           lambda talk=talk, driver=driver, place=place: talk(Bench(settings, driver, place)))
