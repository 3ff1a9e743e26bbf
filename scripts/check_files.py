#!/usr/bin/env python3
"""Checks every text file of the project: its length, and marks that must not be committed.

Usage: scripts/check_files.py [ROOT]

A source file has at most 800 lines, a function 60, and a folder of src/ at most 3,000 of its own without tests (but the
kernels, where every instruction set says the same thing). No file holds a mark of unfinished work, a
comment that begins with 'Of', or a path of somebody's own machine. A comment above code is understood alone:
it does not begin with what leans on something else, as 'Likewise', and one that begins with 'By' or 'For' has
a verb. Only src/cli knows flags: what other rooms say names an option by a mark, ‹context›, which the command
line and the C interface read in their own words. Exits with 1 and a line for each finding.
"""
import collections
import pathlib
import re
import subprocess
import sys

from code_texts import texts_of
from cpp_functions import functions_of

MAX_LINES = 800
MAX_FUNCTION_LINES = 60
MAX_FOLDER_LINES = 3000
MAY_BE_LARGER = "src/kernels"
TESTS = re.compile(r"_(test|test_support|fuzz)\.\w+$")
SOURCE_SUFFIXES = {".h", ".cc", ".c", ".inl", ".cl", ".py", ".sh", ".cmake"}
# Tables of data that a script generates may be longer: name_table.inl, name_table.cc.
GENERATED_TABLE = re.compile(r"_table\.(inl|cc|h)$")
# Split, so that this file does not hold them itself.
FORBIDDEN = [
    (re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b"), "a mark of unfinished work"),
    (re.compile(r"not (yet )?imple" r"mented|unimple" r"mented", re.IGNORECASE), "a promise for later"),
    (re.compile(r"(?<![\w.>*}])/(work|home|root)/\w"), "a path of one machine"),
    (re.compile(r"^\s*// O" r"f\b"), "a comment without a subject"),
]
COMMENT_LINE = re.compile(r"^\s*//+ ?(.*)$")
LEANING = re.compile(r"(From here|Likewise|With it|Its)\b")
ADVERBIAL = re.compile(r"(By|For)\b")
# Whatever may be a finite verb counts as one: a sentence must never be refused.
VERB = re.compile(r"\b(?!(?:its|this|thus|less|across|always|besides|unless)\b)"
                  r"(is|am|are|was|were|has|have|had|do|does|did|can|could|may|might|must|shall|should|will|would|"
                  r"cannot|\w{3,}s|\w{2,}ed)\b")
# In the texts of code: commands in quotes, and flags.
COMMAND = re.compile(r"'troika [^']*'")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
# The one place that may know where real data lies on the machine that runs the checks.
OUTSIDE_DATA = re.compile(r"\.\./shared")
MAY_NAME_OUTSIDE_DATA = {".ci/run", "scripts/check_files.py"}


def project_files(root):
    """Files under version control, or to be added to it; without git, all but the build folders."""
    git = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                         capture_output=True, text=True)
    if git.returncode == 0:
        names = [name for name in git.stdout.split("\0") if name]
    else:
        names = [str(path.relative_to(root)) for path in root.rglob("*")
                 if path.relative_to(root).parts[0] not in {"build", ".git"}]
    return [(name, root / name) for name in sorted(names) if (root / name).is_file()]


def large_folders(files):
    """Folders of src/ whose own product code, without that of folders inside, is too long."""
    lines = collections.Counter()
    for name, path in files:
        folder = str(pathlib.PurePosixPath(name).parent)
        if folder.startswith("src/") and not folder.startswith(MAY_BE_LARGER) and not TESTS.search(name):
            lines[folder] += len(path.read_text(encoding="utf-8", errors="replace").splitlines())
    for folder, n in sorted(lines.items()):
        if n > MAX_FOLDER_LINES:
            yield f"{folder}: {n} lines of product code, at most {MAX_FOLDER_LINES}: give it folders"


def long_functions(name, code):
    for line, length in functions_of(code):
        if length > MAX_FUNCTION_LINES:
            yield f"{name}:{line}: a function of {length} lines, at most {MAX_FUNCTION_LINES}: divide it"


def comments_without_a_sentence(name, lines):
    """Comments of lines of their own that a reader does not understand alone."""
    begin, text = 0, ""
    for number, line in enumerate([*lines, ""], 1):
        if match := COMMENT_LINE.match(line):
            begin, text = begin or number, f"{text} {match.group(1)}".strip()
            continue
        if LEANING.match(text) or (ADVERBIAL.match(text) and not VERB.search(text)):
            yield f"{name}:{begin}: a comment without subject and verb: {' '.join(text.split()[:4])}"
        begin, text = 0, ""


def flags_below_the_command_line(files):
    for name, path in files:
        if not name.startswith("src/") or name.startswith("src/cli/") or path.suffix not in {".h", ".cc"}:
            continue
        if TESTS.search(name):
            continue
        for number, text in texts_of(path.read_text(encoding="utf-8", errors="replace")):
            for flag in FLAG.findall(COMMAND.sub("", text)):
                yield f"{name}:{number}: {flag} in a text: write ‹{flag[2:]}›"


def findings(root):
    files = project_files(root)
    yield from large_folders(files)
    yield from flags_below_the_command_line(files)
    for name, path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a binary file
        lines = text.splitlines()
        if path.suffix in SOURCE_SUFFIXES and len(lines) > MAX_LINES and not GENERATED_TABLE.search(name):
            yield f"{name}: {len(lines)} lines, at most {MAX_LINES}: split it"
        if path.suffix in {".cc", ".h", ".inl", ".cl", ".c"}:
            yield from long_functions(name, text)
            yield from comments_without_a_sentence(name, lines)
        for number, line in enumerate(lines, 1):
            for pattern, what in FORBIDDEN:
                if match := pattern.search(line):
                    yield f"{name}:{number}: {what}: {match.group(0)}"
            if OUTSIDE_DATA.search(line) and name not in MAY_NAME_OUTSIDE_DATA:
                yield f"{name}:{number}: only .ci/run may name a folder outside the project"


def main():
    here = pathlib.Path(__file__).resolve().parent.parent
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else here
    problems = list(findings(root))
    print("\n".join(problems) if problems else "Lengths and marks are in order.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
