"""Tests, and the processes that they start, watch and end."""

import os
import pty
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import termios
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

DRIVERS = ["uring", "epoll", "poll"]

DEFAULT_LIMIT = 20
COMPILE_LIMIT = 120


class Failed(Exception):
    """A test failed; the text says why."""


class Skipped(Exception):
    """A test cannot run on this machine; the text says why."""


class TooSlow(Failed):
    """Only the time limit was exceeded: the test gets a second attempt when nothing else runs."""


class Test:
    """A name and a function, which returns, or raises Failed or Skipped.

    batch: a Batch that can run it together with other tests of its program, by the name `of_batch`."""

    def __init__(self, suite, name, run, alone=False, batch=None, of_batch=None):
        self.suite, self.run, self.alone = suite, run, alone
        self.name = f"{suite}/{name}"
        self.batch, self.of_batch = batch, of_batch


class Batch:
    """A test program that runs many of its tests after one exec: see `--each` in tests/test_main.c."""

    def __init__(self, command, factor, env):
        self.command, self.factor, self.env = command, factor, env

    def run(self, names):
        """Yields name, status ("late" after its time limit), seconds and output of each test, as they end."""
        with tempfile.TemporaryFile() as err, tempfile.TemporaryDirectory(prefix="awake-test-") as scratch:
            environment = dict(os.environ, TMPDIR=scratch, AWAKE_SOURCE_DIR=str(ROOT), **self.env)
            child = subprocess.Popen(self.command + ["--each", str(self.factor)], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=err, env=environment, cwd=scratch,
                                     start_new_session=True)
            with running_lock:
                running.add(child.pid)
            try:
                child.stdin.write("".join(f"{name}\n" for name in names).encode())
                child.stdin.close()
                for name in names:
                    words = child.stdout.readline().decode(errors="replace").split()
                    if len(words) != 4 or words[0] != name:
                        break
                    output = child.stdout.read(int(words[3])).decode(errors="replace")
                    yield name, words[1], float(words[2]), output
            finally:
                kill_group(child.pid)
                child.stdout.close()
                child.wait()
                with running_lock:
                    running.discard(child.pid)
            err.seek(0)
            self.last_words = err.read().decode(errors="replace")


running = set()  # process groups to kill when the runner is stopped
running_lock = threading.RLock()  # a signal handler may take it again


def kill_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def kill_running():
    with running_lock:
        for group in list(running):
            kill_group(group)


class Finished:
    def __init__(self, status, stdout, stderr, seconds):
        self.status, self.stdout, self.stderr, self.seconds = status, stdout, stderr, seconds


def describe(status):
    if status < 0:
        return f"died by {signal.Signals(-status).name}"
    return f"exit status {status}"


def stacks(pid):
    """The stacks of a program that exceeded its time limit, if gdb is installed."""
    if not shutil.which("gdb"):
        return ""
    command = ["gdb", "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all backtrace"]
    try:
        said = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=30, text=True, errors="replace").stdout
    except subprocess.TimeoutExpired:
        return ""
    return "\n".join(line for line in said.splitlines() if line.startswith(("#", "Thread")))


class Terminal:
    """A pseudo terminal for stdout, which is then line buffered: its order with stderr is kept, and no output is lost
    when the program aborts."""

    def __init__(self):
        self.main, self.far_end = pty.openpty()
        settings = termios.tcgetattr(self.far_end)
        settings[1] &= ~termios.OPOST  # no \r before \n
        termios.tcsetattr(self.far_end, termios.TCSANOW, settings)
        self.chunks = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        try:
            while chunk := os.read(self.main, 65536):
                self.chunks.append(chunk)
        except OSError:  # EIO: every far end is closed
            pass

    def finish(self):
        os.close(self.far_end)
        self.reader.join()
        os.close(self.main)
        return b"".join(self.chunks)


def ends_within(child, seconds):
    """Whether the process ends in time. Popen.wait polls at intervals, and would notice a short test late."""
    end = os.pidfd_open(child.pid)
    try:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(end)


def execute(command, limit, env=None, cwd=None, stdin="", terminal=False, merge=False):
    """Runs a command in its own process group, kills the group at the time limit, and returns a Finished.

    terminal: stdout is a pseudo terminal. merge: stderr goes to stdout."""
    # The output goes to files: a pipe would stay open while a stray grandchild lives.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, \
            tempfile.TemporaryFile() as feed, tempfile.TemporaryDirectory(prefix="awake-test-") as scratch:
        feed.write(stdin.encode())
        feed.seek(0)
        screen = Terminal() if terminal else None
        stdout = screen.far_end if screen else out
        environment = dict(os.environ, TMPDIR=scratch, AWAKE_SOURCE_DIR=str(ROOT), **(env or {}))
        begin = time.monotonic()
        expired, where = False, ""
        try:
            child = subprocess.Popen(command, stdin=feed, stdout=stdout, stderr=stdout if merge else err,
                                     env=environment, cwd=cwd or scratch, start_new_session=True)
            with running_lock:
                running.add(child.pid)
            if not ends_within(child, limit):
                expired, where = True, stacks(child.pid)
            seconds = time.monotonic() - begin
            kill_group(child.pid)  # also processes that the test left behind
            child.wait()
            with running_lock:
                running.discard(child.pid)
        finally:
            shown = screen.finish() if screen else b""
        out.seek(0)
        err.seek(0)
        text = (shown or out.read()).decode(errors="replace")
        errors = err.read().decode(errors="replace")
    if expired:
        raise Failed(join_text(f"still running after {limit:g} s", text, errors, where))
    return Finished(child.returncode, text, errors, seconds)


def join_text(*parts):
    return "\n".join(part.rstrip() for part in parts if part.strip())


def must_run(command, limit=COMPILE_LIMIT, **options):
    """Runs a step of a test that must succeed, and returns its output."""
    done = execute(command, limit, **options)
    if done.status != 0:
        raise Failed(join_text(f"$ {shlex.join(map(str, command))}", describe(done.status),
                               done.stdout, done.stderr))
    return done.stdout
