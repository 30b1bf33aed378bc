#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Let the compiler look at every source of a build directory, without making anything: as its compile_commands.json
says, but with -fsyntax-only. All of clang's warnings come from that. Fails when one of them does."""

import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor


def check(entry):
    command = shlex.split(entry["command"])
    if "-o" in command:
        at = command.index("-o")
        del command[at : at + 2]
    command = [word for word in command if word != "-c"] + ["-fsyntax-only"]
    done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main():
    with open(os.path.join(sys.argv[1], "compile_commands.json"), encoding="utf-8") as file:
        entries = {e["command"]: e for e in json.load(file) if not e["file"].endswith(".S")}.values()
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for code, output in pool.map(check, entries):
            sys.stdout.write(output)
            failed += code != 0
    print(f"{len(entries)} sources, {failed} with warnings or errors")
    return failed != 0


sys.exit(main())
