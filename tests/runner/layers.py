"""Tests that no layer of src/ depends on an upper layer, and that scripts/check-layers finds such dependencies."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from .process import ROOT, Failed, Test, must_run

SCRIPT = ROOT / "scripts" / "check-layers"

# A correct tree of two layers, and faults to plant into it: the file, its text, and the message of the script.
TREE = {
    "LAYERS": "low\nhigh\n",
    "low/below.h": "int below(void);\n",
    "low/below.c": '#include "low/below.h"\nint below(void) { return 1; }\n',
    "high/above.h": "int above(void);\n",
    "high/above.c": '#include "high/above.h"\n#include "low/below.h"\nint above(void) { return below(); }\n',
}
PLANTED = {
    "an upward include": ("low/below.c", '#include "low/below.h"\n#include "high/above.h"\nint below(void) { return 1; }\n',
                          "low includes high/above.h"),
    "use of a symbol of an upper layer": ("low/below.c", "int above(void);\nint below(void);\n"
                                              "int below(void) { return above(); }\n", "low uses above"),
    "a file that is not in a layer": ("other/stray.c", "int stray(void);\n", "not in a layer"),
    "two files with the same name": ("high/below.h", "int another(void);\n", "several files have this name"),
}


def check(tree):
    """Compiles the tree, and returns exit status and output of the script."""
    objects = Path(tree, "objects", "src")
    for source in sorted(Path(tree, "src").rglob("*.c")):
        target = objects / source.relative_to(Path(tree, "src")).with_suffix(".c.o")
        target.parent.mkdir(parents=True, exist_ok=True)
        must_run(["gcc", "-c", f"-I{tree}/src", source, "-o", target])
    done = subprocess.run([SCRIPT, "--src", Path(tree, "src"), "--objects", Path(tree, "objects")], capture_output=True,
                          text=True)
    return done.returncode, done.stdout + done.stderr


def planted(files, message):
    with tempfile.TemporaryDirectory(prefix="awake-layers-") as tree:
        for name, text in {**TREE, **files}.items():
            file = Path(tree, "src", name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        status, output = check(tree)
        if message is None and status != 0:
            raise Failed(f"the correct tree does not pass:\n{output}")
        if message is not None and (status == 0 or message not in output):
            raise Failed(f"exit status {status}, expected '{message}' in:\n{output}")


def layer_tests(settings):
    objects = settings.build / "CMakeFiles" / "awake_objects.dir"
    yield Test("layers", "no layer of the library depends on an upper layer",
               lambda: must_run([SCRIPT, "--objects", objects]))
    if not shutil.which("nm"):
        return
    yield Test("layers", "a correct tree passes", lambda: planted({}, None))
    for name, (file, text, message) in PLANTED.items():
        yield Test("layers", f"{name} is found", lambda file=file, text=text, message=message: planted({file: text}, message))
