"""The fiber tests, compiled for aarch64 and run by an emulator: they test the assembly for that processor."""

import os
import re
import shlex
import shutil
import threading

from .process import ROOT, Failed, Skipped, Test, describe, execute, join_text, must_run

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
PACKAGES = "gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user"
SLOWNESS = 10
# pauth-impdef: the architected algorithm for pointer signatures is slow in the emulator.
SETTINGS = {"QEMU_CPU": "max,pauth-impdef=on", "AWAKE_TEST_EMULATED": "1"}


class Library:
    """The library and tests/test_main.c, compiled for the first test that runs."""

    def __init__(self, folder):
        self.folder = folder
        self.lock = threading.Lock()
        self.objects = None

    def make(self):
        if not shutil.which(COMPILER) or not (shutil.which(EMULATOR) or shutil.which(EMULATOR + "-static")):
            raise Skipped(f"{PACKAGES} are not all installed")
        with self.lock:
            if self.objects is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                sources = [*ROOT.glob("src/**/*.c"), *ROOT.glob("src/**/*.S"), ROOT / "tests" / "test_main.c"]
                objects = []
                for source in sources:
                    # The whole path makes the name unique.
                    objects.append(self.folder / ("-".join(source.relative_to(ROOT).parts) + ".o"))
                    must_run([*compile_line(), "-c", source, "-o", objects[-1]], limit=300)
                self.objects = objects
        return self.objects


def fiber_programs():
    return sorted(source for suite in ("unit", "behaviour", "stress", "torture")
                  for source in (ROOT / "tests" / suite).glob("fiber_*.c"))


def compile_line():
    return [COMPILER, "-O2", "-g", "-std=gnu11", "-Wall", "-Wextra", "-mbranch-protection=standard",
            f"-I{ROOT}/include", f"-I{ROOT}/src", f"-I{ROOT}/tests"]


def run_all(library, source):
    """Runs every test of one program, each in its own process."""
    objects = library.make()
    program = library.folder / source.stem
    link = re.search(r"^/\* link: (.*) \*/$", source.read_text(), re.M)
    must_run([*compile_line(), "-static", source, *objects, *shlex.split(link.group(1) if link else ""), "-lpthread",
              "-lm", "-o", program], limit=300)
    emulator = shutil.which(EMULATOR) or shutil.which(EMULATOR + "-static")
    for line in must_run([emulator, program, "--list"]).splitlines():
        name, limit = line.split()
        done = execute([emulator, program, name], int(limit) * SLOWNESS, env={**os.environ, **SETTINGS})
        if done.status not in (0, 77):
            raise Failed(join_text(f"{name}: {describe(done.status)}", done.stdout, done.stderr))


def cross_tests(settings):
    library = Library(settings.build / "cross")
    for source in fiber_programs():
        yield Test("cross", f"aarch64/{source.stem}", lambda source=source: run_all(library, source))
