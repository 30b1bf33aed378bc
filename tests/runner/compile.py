"""Tests of compilation: mistakes and the messages of the compiler, and each header alone."""

import re
import shlex
import tempfile

from .process import COMPILE_LIMIT, ROOT, Failed, Test, execute, join_text, must_run

COMPILERS = {"c": {"gcc": "gcc", "clang": "clang"}, "c++": {"gcc": "g++", "clang": "clang++"}}
COMPILE_FLAGS = {"c": ["-std=c11", "-D_DEFAULT_SOURCE"], "c++": ["-std=c++17"]}


class CompileCase:
    """The // directives of a file in tests/compile."""

    WORDS = r"(gcc|clang)(?:-(O\d))?(-silent)?|only|levels|flags|lang"

    def __init__(self, source):
        self.source = source
        self.must = None
        self.settings = {"levels": "O0 O2", "flags": "", "lang": "c", "only": "gcc clang"}
        self.messages = []  # (compiler, level or None, silent, text)
        for line in source.read_text().splitlines():
            if found := re.fullmatch(r"\s*//\s*MUST (FAIL|COMPILE)\s*", line):
                self.must = found.group(1)
            elif found := re.fullmatch(rf"\s*//\s*({self.WORDS}):\s*(.*?)\s*", line):
                word, compiler, level, silent, text = found.groups()
                if compiler:
                    self.messages.append((compiler, level, bool(silent), text))
                else:
                    self.settings[word] = text

    def wants(self, compiler, level):
        """(must it fail, the patterns its output must match)"""
        mine = [message for message in self.messages
                if message[0] == compiler and message[1] in (None, level)]
        if any(silent for _, _, silent, _ in mine):
            return False, []
        return self.must == "FAIL", [text for _, _, _, text in mine]

    def check(self, compiler, level):
        if self.must is None:
            raise Failed("the file contains neither // MUST FAIL nor // MUST COMPILE")
        must_fail, patterns = self.wants(compiler, level)
        if must_fail and not patterns:
            raise Failed(f"the file has no expected message for {compiler} (// {compiler}: REGEX)")
        language = self.settings["lang"]
        with tempfile.TemporaryDirectory(prefix="awake-compile-") as scratch:
            # Not -fsyntax-only: some warnings come from the optimiser.
            command = [COMPILERS[language][compiler], *COMPILE_FLAGS[language], "-Wall", "-Wextra",
                       f"-{level}", "-Iinclude", *shlex.split(self.settings["flags"]), "-x", language,
                       "-c", self.source.relative_to(ROOT), "-o", f"{scratch}/out.o"]
            done = execute(command, COMPILE_LIMIT, cwd=ROOT, env={"LC_ALL": "C"}, merge=True)
        said = join_text(f"$ {shlex.join(map(str, command))}", done.stdout)
        if must_fail and done.status == 0:
            raise Failed(join_text("it compiled", said))
        if not must_fail and done.status != 0:
            raise Failed(join_text("it did not compile", said))
        for pattern in patterns:
            if not any(re.search(pattern, line) for line in done.stdout.splitlines()):
                raise Failed(join_text(f"no line of the output matches: {pattern}", said))


def compile_tests():
    for source in sorted((ROOT / "tests" / "compile").glob("*.c")):
        case = CompileCase(source)
        for compiler in case.settings["only"].split():
            for level in case.settings["levels"].split():
                yield Test("compile", f"{source.stem}/{compiler}-{level}",
                           lambda case=case, compiler=compiler, level=level: case.check(compiler, level))


def header_tests():
    headers = [ROOT / "include" / "awake.h", *sorted((ROOT / "include" / "awake").rglob("*.h"))]
    for header in headers:
        name = header.relative_to(ROOT / "include")
        for language, standard in (("c", "c11"), ("c++", "c++17")):
            for compiler, command in COMPILERS[language].items():
                flags = [f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Iinclude"]
                # Included twice, to test the include guard. The declaration is there because C forbids an empty file.
                text = f"#include <{name}>\n#include <{name}>\nextern int nothing;\n"
                yield Test("headers", f"{name}/{compiler}-{standard}",
                           lambda command=[command, *flags, "-fsyntax-only", "-x", language, "-"], text=text:
                           must_run(command, cwd=ROOT, stdin=text))
