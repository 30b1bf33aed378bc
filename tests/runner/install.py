"""Tests of an installation: by small projects that use it, and by the programs of README.md."""

import re
import shlex
import shutil
import tempfile
import threading
from pathlib import Path

from .expected import check_text
from .process import DEFAULT_LIMIT, ROOT, Failed, Test, describe, execute, join_text, must_run


class Stage:
    """An installation, made for the first test that needs it and shared by all."""

    def __init__(self, settings):
        self.settings = settings
        self.prefix = settings.build / "stage"
        self.lock = threading.Lock()
        self.problem = None
        self.made = False

    def make(self):
        with self.lock:
            if not self.made:
                self.made = True
                shutil.rmtree(self.prefix, ignore_errors=True)
                try:
                    must_run(["make", "--no-print-directory", "install", f"PREFIX={self.prefix}",
                              f"INSTALL_FROM={self.settings.build}"], limit=600, cwd=ROOT)
                except Failed as problem:
                    self.problem = str(problem)
        if self.problem:
            raise Failed(f"the installation failed\n{self.problem}")

    def pkg_config(self, *options):
        found = must_run(["pkg-config", *options, "awake"],
                         env={"PKG_CONFIG_PATH": str(self.prefix / "lib" / "pkgconfig")})
        return shlex.split(found)

    def env(self):
        return {"LD_LIBRARY_PATH": str(self.prefix / "lib")}


def check_consumer(output):
    if not re.fullmatch(r"awake \d+\.\d+\.\d+\n", output):
        raise Failed(f"the consumer printed {output!r}")


def consumer_by_cmake(settings, project, *options):
    with tempfile.TemporaryDirectory(prefix="awake-install-") as build:
        ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
        must_run(["cmake", "-S", ROOT / "tests" / "install" / project, "-B", build, *ninja,
                  f"-DCMAKE_C_COMPILER={settings.cached('CMAKE_C_COMPILER') or 'gcc'}", *options])
        must_run(["cmake", "--build", build], limit=600)
        check_consumer(must_run([f"{build}/consumer"]))


def find_package(settings, stage, shared):
    stage.make()
    consumer_by_cmake(settings, "find_package", f"-DCMAKE_PREFIX_PATH={stage.prefix}",
                      f"-DBUILD_SHARED_LIBS={shared}")


def pkg_config(stage, compiler, static):
    stage.make()
    with tempfile.TemporaryDirectory(prefix="awake-install-") as build:
        language = "c++" if "++" in compiler else "c"
        link = ["-static", *stage.pkg_config("--static", "--libs")] if static else stage.pkg_config("--libs")
        program = f"{build}/consumer"
        must_run([compiler, "-x", language, ROOT / "tests" / "install" / "consumer.c", "-x", "none",
                  "-o", program, *stage.pkg_config("--cflags"), *link])
        check_consumer(must_run([program], env={} if static else stage.env()))


def check_exports(stage):
    """Exported names begin with aw_, to avoid collisions with the user's. The soname contains the ABI version."""
    stage.make()
    shared = stage.prefix / "lib" / "libawake.so"
    symbols = must_run(["nm", "-D", "--defined-only", shared]).split("\n")
    foreign = [line.split()[-1] for line in symbols if line and not line.split()[-1].startswith("aw_")]
    if foreign:
        raise Failed(f"the shared library exports {', '.join(foreign)}")
    symbols = must_run(["nm", "-g", "--defined-only", stage.prefix / "lib" / "libawake.a"]).split("\n")
    foreign = [line.split()[-1] for line in symbols
               if len(line.split()) == 3 and not line.split()[-1].startswith("aw_")]
    if foreign:
        raise Failed(f"the static library defines {', '.join(foreign)}")
    major, minor = stage.pkg_config("--modversion")[0].split(".")[:2]
    soname = f"libawake.so.{major}.{minor}" if major == "0" else f"libawake.so.{major}"
    if f"[{soname}]" not in must_run(["readelf", "-d", shared]):
        raise Failed(f"the soname is not {soname}")


def install_tests(settings, stage):
    yield Test("install", "find_package static", lambda: find_package(settings, stage, "OFF"))
    yield Test("install", "find_package shared", lambda: find_package(settings, stage, "ON"))
    yield Test("install", "pkg-config static", lambda: pkg_config(stage, "gcc", True))
    yield Test("install", "pkg-config shared", lambda: pkg_config(stage, "gcc", False))
    yield Test("install", "pkg-config shared c++", lambda: pkg_config(stage, "g++", False))
    yield Test("install", "add_subdirectory", lambda: consumer_by_cmake(settings, "add_subdirectory"))
    yield Test("install", "add_subdirectory without liburing",
               lambda: consumer_by_cmake(settings, "add_subdirectory", "-DAWAKE_URING=OFF"))
    yield Test("install", "exported names and soname", lambda: check_exports(stage))


def readme_tests(stage):
    readme = ROOT / "README.md"
    text = readme.read_text() if readme.exists() else ""
    programs = list(re.finditer(r"^```c\n(.*?)^```$", text, re.M | re.S))
    yield Test("readme", "README.md has programs", lambda: check_has_programs(programs))
    for i, program in enumerate(programs):
        # Its output, if it has one, is the text block before the next program.
        rest = text[program.end():programs[i + 1].start() if i + 1 < len(programs) else len(text)]
        output = re.search(r"^```text\n(.*?)^```$", rest, re.M | re.S)
        yield Test("readme", f"program {i + 1} compiles{' and runs' if output else ''}",
                   lambda program=program, output=output: check_readme(stage, program, output))


def check_has_programs(programs):
    if not programs:
        raise Failed("README.md has no ```c block")


def check_readme(stage, program, output):
    stage.make()
    with tempfile.TemporaryDirectory(prefix="awake-readme-") as build:
        Path(build, "readme.c").write_text(program.group(1))
        must_run(["gcc", "-Wall", "-Wextra", "-Werror", f"{build}/readme.c", "-o", f"{build}/readme",
                  *stage.pkg_config("--cflags", "--libs")])
        if not output:
            return
        done = execute([f"{build}/readme"], DEFAULT_LIMIT, env=stage.env(), terminal=True)
    if done.status != 0:
        raise Failed(join_text(describe(done.status), done.stdout, done.stderr))
    check_text(output.group(1).splitlines(), done.stdout)
