"""Tests of fibers with other tools: backtraces in a debugger, and the ELF notes of the library for the loader."""

import re
import shutil
import tempfile
from pathlib import Path

from .process import ROOT, Failed, Skipped, Test, execute, join_text, must_run

PROGRAM = """
#include <awake.h>

__attribute__((noinline)) static int deepest(int n) {
    __asm__ volatile("" : "+r"(n));
    return n;
}
__attribute__((noinline)) static int middle(int n) {
    int r = aw_fiber_yield();
    if (r == 0) r = deepest(n);
    __asm__ volatile("" : "+r"(r)); /* not a tail call */
    return r;
}
AW_FIBER(int, answers, int n;) {
    int r = deepest(self->n);
    __asm__ volatile("" : "+r"(r));
    r = middle(r + 1);
    __asm__ volatile("" : "+r"(r));
    return r;
}
int main(void) {
    return aw_run(AW_CALL(answers, .n = 6)) == 7 ? 0 : 1;
}
"""


def backtrace(settings, level):
    """Checks the backtrace, innermost function first, at the first entry and after the fiber has waited."""
    if not shutil.which("gdb"):
        raise Skipped("gdb is not installed")
    with tempfile.TemporaryDirectory(prefix="awake-debugger-") as scratch:
        source, program = Path(scratch, "program.c"), Path(scratch, "program")
        source.write_text(PROGRAM)
        uring = ["-luring"] if settings.cached("AWAKE_HAS_LIBURING") else []
        must_run([settings.cached("CMAKE_C_COMPILER") or "gcc", "-g", f"-{level}", f"-I{ROOT}/include", source,
                  settings.build / "libawake.a", *uring, "-lpthread", "-o", program])
        done = execute(["gdb", "-batch", "-nx", "-ex", "set debuginfod enabled off", "-ex", "break deepest",
                        "-ex", "run", "-ex", "echo == first\\n", "-ex", "backtrace", "-ex", "continue",
                        "-ex", "echo == second\\n", "-ex", "backtrace", "-ex", "echo == end\\n", program], 60, merge=True)
    if re.search(r"ptrace: Operation not permitted|Could not trace the inferior|warning: ptrace", done.stdout):
        raise Skipped("gdb is not permitted to trace")
    parts = re.search(r"== first\n(.*)== second\n(.*)== end", done.stdout, re.S)
    if not parts:
        raise Failed(join_text("gdb did not stop twice", done.stdout))
    for text, calls in zip(parts.groups(), (["deepest"], ["deepest", "middle"])):
        if "Backtrace stopped" in text:
            raise Failed(join_text("the backtrace is incomplete", text))
        frames = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?([\w.]+)", text, re.M)
        # The optimiser may remove functions between the body and the bottom.
        if frames[:len(calls) + 1] != calls + ["aw__body_answers"]:
            raise Failed(join_text(f"the backtrace begins with {', '.join(frames[:3])}", text))
        bottom = frames[-1].replace(".", "__")  # gdb decodes the name as one of Ada
        if bottom != "aw__switch_start" or len(frames) > len(calls) + 4 or "main" in frames:
            raise Failed(join_text("the backtrace does not end at the entry of the fiber", text))


def check_notes(settings):
    """The library must claim indirect branch tracking, but no shadow stack, which it does not switch."""
    library = settings.build / "libawake.so"
    segments = must_run(["readelf", "-lW", library])
    stack = re.search(r"^ *GNU_STACK .*$", segments, re.M)
    if not stack or re.search(r"\bRWE\b", stack.group()):
        raise Failed(join_text("the library requires an executable stack", segments))
    if "TEXTREL" in must_run(["readelf", "-d", library]):
        raise Failed("the library has relocations in its code")
    if "X86-64" not in must_run(["readelf", "-h", library]):
        raise Skipped("these notes exist only on x86-64")
    if "SHSTK" in must_run(["readelf", "-nW", library]):
        raise Failed("the library claims to support a shadow stack")
    # The linker keeps a note only if every object has it. The start files of the C library may lack it, so link without
    # them.
    with tempfile.TemporaryDirectory(prefix="awake-notes-") as scratch:
        bare = Path(scratch, "bare.so")
        must_run([settings.cached("CMAKE_C_COMPILER") or "gcc", "-shared", "-nostdlib", "-Wl,--whole-archive",
                  settings.build / "libawake.a", "-o", bare])
        notes = must_run(["readelf", "-nW", bare])
    members = must_run(["readelf", "-nW", settings.build / "libawake.a"]).split("File: ")[1:]
    unmarked = [member.split("\n")[0] for member in members if "IBT" not in member]
    if unmarked or not re.search(r"x86 feature: IBT$", notes, re.M):
        raise Failed(join_text("the library must claim indirect branch tracking and nothing else", notes, *unmarked))


def debugger_tests(settings):
    for level in ("O0", "O2"):
        yield Test("debugger", f"a backtrace ends at the entry of the fiber/{level}",
                   lambda level=level: backtrace(settings, level))
    yield Test("debugger", "notes of the library", lambda: check_notes(settings))
