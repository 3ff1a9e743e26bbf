#!/usr/bin/env python3
"""Counts code that is written more than once: windows of lines that stand in two places or more of src/.

Usage: scripts/repeated_code.py [--lines N] [--show N] [--json FILE] [ROOT]

Only product code counts (.cc and .h, no tests). Lines without code of their own are left out first: empty ones,
comments, braces alone, #include, #pragma, and what opens or closes a namespace. Windows that follow each other in the
same places are one repeat. Prints the totals of the tree, then the longest repeats with their places.
"""
import argparse
import collections
import json
import pathlib
import re

from cpp_functions import NO_CODE, SPACE
from tables import ROOT, table

TESTS = re.compile(r"_(test|test_support|fuzz)\.\w+$")
NO_CODE_OF_ITS_OWN = re.compile(r"[{}()\[\];,]*$|#\s*(include|pragma)\b|using namespace\b|(inline )?namespace\b")
SPACES = re.compile(r"\s+")


def normalised(code):
    """(number, text) of every line that counts, with spaces made equal."""
    without_comments = NO_CODE.sub(lambda m: SPACE.sub(" ", m.group()) if m.group().startswith("/") else m.group(), code)
    for number, line in enumerate(without_comments.splitlines(), 1):
        text = SPACES.sub(" ", line.strip())
        if not NO_CODE_OF_ITS_OWN.match(text):
            yield number, text


def files_of(root):
    return sorted(path for path in (root / "src").rglob("*")
                  if path.suffix in {".cc", ".h"} and not TESTS.search(path.name))


def repeated_windows(lines_of, n_lines):
    """For each window that occurs twice or more, the (file, index of the first line) of its places, in order."""
    places = collections.defaultdict(list)
    for name, lines in lines_of.items():
        for i in range(len(lines) - n_lines + 1):
            places[tuple(text for _, text in lines[i:i + n_lines])].append((name, i))
    return [found for found in places.values() if len(found) > 1]


def followed(places):
    return [(name, i + 1) for name, i in places]


def repeats_of(windows, n_lines):
    """(number of lines, places) of windows that follow each other in the same places, put together."""
    places_from = {places[0]: places for places in windows}
    behind_another = {places[0] for places in windows
                      if (before := places_from.get((places[0][0], places[0][1] - 1))) and followed(before) == places}
    for places in windows:
        if places[0] in behind_another:
            continue
        last, length = places, n_lines
        while (after := places_from.get((last[0][0], last[0][1] + 1))) == followed(last):
            last, length = after, length + 1
        yield length, places


def count(root, n_lines):
    lines_of = {str(path.relative_to(root)): list(normalised(path.read_text("utf-8"))) for path in files_of(root)}
    windows = repeated_windows(lines_of, n_lines)
    covered = {(name, i + k) for places in windows for name, i in places for k in range(n_lines)}
    repeats = sorted(repeats_of(windows, n_lines), key=lambda repeat: (-repeat[0], repeat[1]))
    n_code = sum(map(len, lines_of.values()))
    return {
        "lines_in_a_window": n_lines,
        "files": len(lines_of),
        "lines": n_code,
        "windows": len(windows),
        "repeats": len(repeats),
        "repeated_lines": len(covered),
        "percent": round(100 * len(covered) / n_code, 2) if n_code else 0.0,
        "list": [{"lines": length, "places": [f"{name}:{lines_of[name][i][0]}" for name, i in places]}
                 for length, places in repeats],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=6, help="lines of a window (default: 6)")
    parser.add_argument("--show", type=int, default=20, help="repeats to list (default: 20)")
    parser.add_argument("--json", type=pathlib.Path, help="write everything that was found to this file")
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=ROOT)
    options = parser.parse_args()
    found = count(options.root.resolve(), options.lines)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(table(["files", "lines", "windows twice or more", "repeats", "lines in them", "%"],
                [[found[key] for key in ("files", "lines", "windows", "repeats", "repeated_lines", "percent")]]))
    for repeat in found["list"][:options.show]:
        print(f"{repeat['lines']:4} lines: {', '.join(repeat['places'])}")


if __name__ == "__main__":
    main()
