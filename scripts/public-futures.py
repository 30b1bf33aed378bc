#!/usr/bin/env python3
"""Lists the public futures. With --check, fails if one of them has no cancellation test.

In a public header a future is marked by a line directly before its struct or macro:

    /* aw-future: NAME */

A test that cancels it at each of its awaits is marked, anywhere under tests/, by the line:

    /* cancel-at-every-await: NAME */

A struct that begins like a future and has no mark is reported too.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def marks(folder, word):
    """(name, file, line number, the 40 lines after it) of each mark in the sources of a folder."""
    for file in sorted(folder.rglob("*.[ch]")):
        lines = file.read_text().splitlines() + [""]
        for number, line in enumerate(lines, 1):
            if found := re.fullmatch(rf"\s*/\* {word}: (\w+) \*/\s*", line):
                yield found.group(1), file.relative_to(ROOT), number, "\n".join(lines[number:number + 40])


def unmarked():
    """(name, file, line number) of each public struct that is a future without a mark."""
    future = re.compile(r"^(?:typedef )?struct (aw_(?!_)\w+) \{\s*(?:/\*.*?\*/\s*)?(?:aw_future \w+;|AW_FRAME\()", re.M | re.S)
    for file in sorted((ROOT / "include").rglob("*.h")):
        text = file.read_text()
        for found in future.finditer(text):
            before = text[:found.start()].splitlines() or [""]
            if not re.search(r"/\* aw-future: \w+ \*/", before[-1]):
                yield found.group(1), file.relative_to(ROOT), len(before) + 1


def main():
    futures = list(marks(ROOT / "include", "aw-future"))
    if sys.argv[1:] != ["--check"]:
        for name, file, number, _ in futures:
            print(f"{name}\t{file}:{number}")
        return 0

    problems = []
    if not futures:
        problems.append("no public header marks a future: '/* aw-future: NAME */'")
    names = {name for name, *_ in futures}
    tested = {name for name, _, _, below in marks(ROOT / "tests", "cancel-at-every-await")
              if re.search(r"TEST|^ON_\w+\(", below, re.M)}
    for name, file, number, following in futures:
        if not following.splitlines()[0].strip():
            problems.append(f"{file}:{number}: the mark of {name} is not directly before its struct or macro")
        if name not in tested:
            problems.append(f"{file}:{number}: {name} has no cancel-at-every-await test")
    for name, file, number in unmarked():
        problems.append(f"{file}:{number}: struct {name} is a future without a mark")
    for name, file, number, _ in marks(ROOT / "tests", "cancel-at-every-await"):
        if name not in names:
            problems.append(f"{file}:{number}: there is no public future {name}")
    print("\n".join(problems) or f"{len(names)} public futures, each with a cancel-at-every-await test")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
