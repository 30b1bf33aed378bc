"""Tests the servers of examples/ with nc, socat, curl and iperf3: on each driver, on one thread and on two workers."""

import contextlib
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

FLAVOURS = {"_on_one_thread": {"AWAKE_FLAVOUR": "current"},
            "_on_2_workers": {"AWAKE_FLAVOUR": "multi", "AWAKE_WORKERS": "2"}}


# ---- Processes that run during a test ------------------------------------------------------------


class Talker:
    """A process with line-based input and output. It is killed at the end of its `with` block. The test fails if the
    process ended with an error before, or printed to stderr."""

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
        """Sends a line to the process."""
        self.process.stdin.write(line.encode() + b"\n")

    def hears(self):
        """The next line that the process prints."""
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
    """An example that listens. At its end it must have used the driver that was requested, and must have no more
    descriptors than at its start, apart from those of its drivers."""

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
        self.at_first = self.connections()
        return self

    def descriptors(self):
        """The target of each descriptor, such as "socket:[123]" or "anon_inode:[eventpoll]"."""
        folder = f"/proc/{self.process.pid}/fd"
        for fd in os.listdir(folder):
            try:
                yield os.readlink(f"{folder}/{fd}")
            except FileNotFoundError:  # closed meanwhile
                pass

    def connections(self):
        """The number of descriptors, without those of drivers. Each worker opens its driver when it needs it. A driver
        has two descriptors: a ring or an epoll instance with an eventfd, or a pipe. More than these are counted."""
        kinds = list(self.descriptors())
        by_poll = self.env["AWAKE_DRIVER"] == "poll"
        of_drivers = [kind for kind in kinds if kind.startswith("pipe:" if by_poll else "anon_inode:")]
        allowed = 2 * int(self.env.get("AWAKE_WORKERS", 1)) + (2 if by_poll else 0)  # its input and output are pipes
        return len(kinds) - min(len(of_drivers), allowed)

    def wait_until_alone(self):
        """Waits until it has closed all connections, or for the time limit. Returns how many descriptors are left."""
        deadline = time.monotonic() + self.limit
        while (left := self.connections() - self.at_first) > 0 and time.monotonic() < deadline:
            time.sleep(0.005)
        return left

    def driver(self):
        found = set(self.descriptors())
        if "anon_inode:[io_uring]" in found:
            return "uring"
        return "epoll" if "anon_inode:[eventpoll]" in found else "poll"

    def __exit__(self, problem, value, trace):
        left, driver = 0, self.env["AWAKE_DRIVER"]
        if not problem and self.process.poll() is None:
            driver = self.driver()
            left = self.wait_until_alone()
        super().__exit__(problem, value, trace)
        if left > 0:
            raise Failed(f"{self.name} has {left} descriptors more than at its start")
        if driver != self.env["AWAKE_DRIVER"]:
            raise Failed(f"{self.name} used {driver} and not {self.env['AWAKE_DRIVER']}")


class Bench:
    """Starts programs for the tests of one driver and flavour."""

    def __init__(self, settings, driver, flavour):
        settings.need_driver(driver)
        self.settings = settings
        self.limit = DEFAULT_LIMIT * settings.slowness
        self.env = {**settings.env, "AWAKE_DRIVER": driver, **FLAVOURS[flavour]}

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
        # -N: shut down the sending side at the end of the input.
        same(bench.run("nc", "-N", "127.0.0.1", where, stdin=text), text, "the echo")
        # A client that disappears with data in flight does not disturb the next one.
        with bench.talker("nc", "127.0.0.1", where) as rude:
            rude.says(text[:100000])
            rude.hears()
        same(bench.run("nc", "-N", "127.0.0.1", where, stdin="again\n"), "again\n", "the echo")


def socat_and_the_echo_server(bench):
    text = much_text()
    with bench.example("81b_echo_fiber", "0") as server:
        same(bench.run("socat", "-t10", "-", f"TCP:127.0.0.1:{server.port}", stdin=text), text, "the echo")


def wait_for_the_end_of(path, limit):
    """Waits until the path refuses connections: the kernel closes sockets held by io_uring a while after a process is
    killed."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                return
        time.sleep(0.002)
    raise Failed(f"a process still listens at {path}")


def socat_over_a_unix_socket(bench):
    text = much_text()
    with tempfile.TemporaryDirectory(prefix="awake-peers-") as folder:
        path = f"{folder}/echo.sock"
        for _ in ("a new path", "the path of a killed server"):
            with bench.example("81a_echo", f"unix:{path}") as server:
                same(server.address, f"unix:{path}", "the address")
                same(bench.run("socat", "-t10", "-", f"UNIX-CONNECT:{path}", stdin=text), text, "the echo")
            wait_for_the_end_of(path, bench.limit)


def socat_over_ipv6(bench):
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError as problem:
        raise Skipped(f"::1 is not available: {problem}")
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
            bob.process.stdin.close()  # socat shuts down its sending side
            ann.must_hear("bob has gone")


def a_chat_with_a_guest_whose_name_is_a_zero(bench):
    with bench.example("82_chat", "0") as server:
        where = server.port
        with bench.talker("nc", "127.0.0.1", where) as ann, \
                bench.talker("socat", "-", f"TCP:127.0.0.1:{where}") as guest:
            ann.must_hear("Your name?")
            ann.says("ann")
            ann.must_hear("Welcome, ann")
            guest.must_hear("Your name?")
            guest.says("\0")
            guest.must_hear("Welcome, ")
            ann.must_hear(" has come")
            guest.process.stdin.close()
            ann.must_hear(" has gone")


def curl_and_the_http_server(bench):
    with bench.example("86_http", "0") as server:
        base = f"http://127.0.0.1:{server.port}"
        curl = ["curl", "--silent", "--show-error", "--noproxy", "*", "--max-time", f"{bench.limit:g}"]
        got = bench.run(*curl, "--write-out", "%{http_code} %{content_type}\n", f"{base}/some/page?x=1")
        same(got, "You asked for /some/page?x=1\n200 text/plain\n", "the page")
        # Many requests at once, each on its own connection.
        got = bench.run(*curl, "--parallel", f"{base}/[1-40]")
        same(sorted(got.splitlines()), sorted(f"You asked for /{i}" for i in range(1, 41)), "the pages")
        got = bench.run(*curl, "--request", "BREW", "--output", "/dev/null", "--write-out", "%{http_code}", base)
        same(got, "400", "the status")


class Page(http.server.BaseHTTPRequestHandler):
    """A server that does not use Awake."""

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
                # Three requests on one connection.
                got = bench.run("curl", "--silent", "--show-error", "--noproxy", "*", "--max-time", f"{bench.limit:g}",
                                "--header", "Expect:", "--data-binary", "@-", f"{url}/1", f"{url}/2", f"{url}/3", stdin=text)
                same(got, text * 3, "the body")
        finally:
            web.shutdown()
            thread.join()


def iperf3_through_the_proxy(bench, *direction):
    need("iperf3")
    with socket.socket() as free:  # iperf3 cannot pick a free port itself
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


# ---- Peers that do not cooperate -----------------------------------------------------------------
#
# They stay connected until the server closes the connection. Without a timeout it would keep them forever: while a peer
# is alive and does not read, the kernel reports nothing to the writer.


def deaf(where):
    """A connection that is never read, with a small receive buffer."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.connect(("127.0.0.1", int(where)))
    return peer


def fill(peer, limit):
    """Sends until the server accepts no more data, or has closed the connection."""
    peer.settimeout(0.1)
    deadline = time.monotonic() + limit
    try:
        while time.monotonic() < deadline:
            peer.send(bytes(65536))
    except (TimeoutError, ConnectionError):
        return
    raise Failed("the server accepted all data")


def must_be_closed(peer, limit):
    peer.settimeout(limit)
    try:
        same(peer.recv(1), b"", "the data from the server")
    except TimeoutError:
        raise Failed(f"the server did not close the connection for {limit:g} s")
    except ConnectionError:
        pass


def must_be_alone(server):
    if (left := server.wait_until_alone()) > 0:
        raise Failed(f"{server.name} did not close its connections: {left} descriptors more than at its start")


def drop_the_deaf_and_the_silent(bench, name):
    with bench.example(name, "0", "0.3") as server:
        with contextlib.ExitStack() as peers:
            for _ in range(10):
                fill(peers.enter_context(deaf(server.port)), bench.limit)
            # The last client: when it is served, all have been accepted.
            silent = peers.enter_context(socket.create_connection(("127.0.0.1", int(server.port))))
            must_be_closed(silent, bench.limit)
            must_be_alone(server)


def the_echo_server_drops_peers_that_never_read(bench):
    drop_the_deaf_and_the_silent(bench, "81a_echo")


def the_echo_server_of_fibers_drops_peers_that_never_read(bench):
    drop_the_deaf_and_the_silent(bench, "81b_echo_fiber")


def the_chat_drops_a_guest_that_never_reads_and_one_without_a_name(bench):
    with bench.example("82_chat", "0", str(2 * min(2, bench.settings.slowness))) as server:
        with socket.create_connection(("127.0.0.1", int(server.port))) as nameless, \
                bench.talker("nc", "127.0.0.1", server.port) as ann, bench.talker("nc", "127.0.0.1", server.port) as bob:
            for name, guest in (("ann", ann), ("bob", bob)):
                guest.must_hear("Your name?")
                guest.says(name)
                guest.must_hear(f"Welcome, {name}")
            ann.must_hear("bob has come")
            with deaf(server.port) as eve:
                eve.send(b"eve\n")
                ann.must_hear("eve has come")
                bob.must_hear("eve has come")
                # Bob is silent too, but reads: the server keeps this connection.
                deadline = time.monotonic() + bench.limit
                while True:
                    ann.says("x" * 200)
                    if (heard := bob.hears()) == "eve has gone":
                        break
                    same(heard, "ann: " + "x" * 200, "the line")
                    if time.monotonic() > deadline:
                        raise Failed("82_chat keeps a guest that does not read")
            ann.must_hear("eve has gone")
            nameless.settimeout(bench.limit)
            same(nameless.makefile().read(), "Your name?\n", "what a guest without a name hears")


def the_http_server_drops_one_that_never_ends_its_request(bench):
    with bench.example("86_http", "0", "0.3") as server, \
            socket.create_connection(("127.0.0.1", int(server.port))) as peer:
        for byte in b"GET /slowly":
            peer.send(bytes([byte]))
        must_be_closed(peer, bench.limit)
        must_be_alone(server)


@contextlib.contextmanager
def proxy_and_its_ends(bench, timeout, connect=lambda where: socket.create_connection(("127.0.0.1", int(where)))):
    """The proxy and both ends of a connection through it."""
    with socket.create_server(("127.0.0.1", 0)) as behind:
        behind.settimeout(bench.limit)
        with bench.example("83_proxy", "0", "127.0.0.1", str(behind.getsockname()[1]), str(timeout)) as proxy, \
                connect(proxy.port) as client, behind.accept()[0] as server:
            client.settimeout(bench.limit)
            server.settimeout(bench.limit)
            yield proxy, client, server


def the_proxy_drops_two_silent_ends(bench):
    with proxy_and_its_ends(bench, 0.3) as (proxy, client, server):
        must_be_closed(client, bench.limit)
        must_be_closed(server, bench.limit)
        must_be_alone(proxy)


def the_proxy_drops_a_peer_that_never_reads(bench):
    with proxy_and_its_ends(bench, 0.5, deaf) as (proxy, _, server):
        fill(server, bench.limit)
        must_be_alone(proxy)


def the_proxy_keeps_a_slow_peer_for_many_rounds(bench):
    timeout = min(2, bench.settings.slowness)
    with proxy_and_its_ends(bench, timeout) as (_, client, server):
        text = b"slowly, but surely"
        for byte in text:  # takes as long as three rounds
            time.sleep(3 * timeout / len(text))
            client.send(bytes([byte]))
        client.shutdown(socket.SHUT_WR)
        with server.makefile("rb") as all_of_it:
            same(all_of_it.read(), text, "what was sent byte by byte")
        server.sendall(b"well done")
        server.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as all_of_it:
            same(all_of_it.read(), b"well done", "the answer")


TALKS = [iperf3_through_the_proxy, iperf3_through_the_proxy_backwards, nc_and_the_echo_server, socat_and_the_echo_server,
         socat_over_a_unix_socket, socat_over_ipv6, socat_and_datagrams, nc_and_socat_in_a_chat,
         a_chat_with_a_guest_whose_name_is_a_zero, curl_and_the_http_server, curl_through_the_proxy,
         the_echo_server_drops_peers_that_never_read, the_echo_server_of_fibers_drops_peers_that_never_read,
         the_chat_drops_a_guest_that_never_reads_and_one_without_a_name,
         the_http_server_drops_one_that_never_ends_its_request, the_proxy_drops_two_silent_ends,
         the_proxy_drops_a_peer_that_never_reads, the_proxy_keeps_a_slow_peer_for_many_rounds]


def peer_tests(settings):
    for talk in TALKS:
        for driver in DRIVERS:
            for flavour in FLAVOURS:
                yield Test("peers", f"{talk.__name__}_by_{driver}{flavour}",
                           lambda talk=talk, driver=driver, flavour=flavour: talk(Bench(settings, driver, flavour)))
