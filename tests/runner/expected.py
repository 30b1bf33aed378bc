"""Compares output with the expected text, in the format of examples/expected/NAME.txt."""

import collections
import difflib
import re

from .process import Failed


class Expected:
    """examples/expected/NAME.txt: directives on lines that start with `#:`, then the text."""

    KNOWN = {"exit", "stderr", "limit", "unordered", "args", "min-seconds", "max-seconds", "no-sanitize"}

    def __init__(self, text):
        self.directives = collections.defaultdict(list)
        lines = text.splitlines()
        while lines and lines[0].startswith("#:"):
            word, _, rest = lines.pop(0)[2:].strip().partition(" ")
            if word not in self.KNOWN:
                raise Failed(f"unknown directive '#: {word}'")
            self.directives[word].append(rest.strip())
        self.lines = lines

    def has(self, name):
        return name in self.directives

    def get(self, name, default, convert=float):
        return convert(self.directives[name][-1]) if self.has(name) else default


ANY_LINES = "{{...}}"


def line_pattern(line):
    """The regular expression of a line, or None if it is plain text."""
    parts = re.split(r"\{\{(.*?)\}\}", line)
    if len(parts) == 1:
        return None
    return re.compile("".join(f"(?:{p})" if i % 2 else re.escape(p) for i, p in enumerate(parts)))


def line_matches(expected, pattern, actual):
    return expected == actual if pattern is None else pattern.fullmatch(actual) is not None


def text_matches(expected, actual):
    """Matches like a file name pattern, with lines for letters and {{...}} for the star. On a mismatch the latest star
    takes one line more."""
    patterns = [line_pattern(line) for line in expected]
    at, line, star, star_line = 0, 0, None, 0
    while line < len(actual):
        if at < len(expected) and expected[at].strip() == ANY_LINES:
            star, star_line = at, line
            at += 1
        elif at < len(expected) and line_matches(expected[at], patterns[at], actual[line]):
            at, line = at + 1, line + 1
        elif star is not None:
            star_line += 1
            at, line = star + 1, star_line
        else:
            return False
    return all(rest.strip() == ANY_LINES for rest in expected[at:])


def text_matches_unordered(expected, actual):
    left = collections.Counter(actual)
    anything = False
    patterns = []
    for line in expected:
        pattern = line_pattern(line)
        if line.strip() == ANY_LINES:
            anything = True
        elif pattern:
            patterns.append(pattern)
        elif left[line] > 0:
            left[line] -= 1
        else:
            return False
    for pattern in patterns:
        found = next((line for line, count in left.items() if count > 0 and pattern.fullmatch(line)), None)
        if found is None:
            return False
        left[found] -= 1
    return anything or sum(left.values()) == 0


def check_text(expected, text, unordered=False):
    actual = text.splitlines()
    matches = text_matches_unordered if unordered else text_matches
    if matches(expected, actual):
        return
    if unordered:
        expected, actual = sorted(expected), sorted(actual)
    diff = list(difflib.unified_diff(expected, actual, "expected", "actual", lineterm="", n=2))
    raise Failed("\n".join(["the output differs:"] + diff[:80]))
