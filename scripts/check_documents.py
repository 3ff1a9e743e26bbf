#!/usr/bin/env python3
"""Checks what documents and errors promise: links, files, scripts and commands of the program exist.

Usage: scripts/check_documents.py [ROOT] [--program PATH/troika]

In every Markdown file: a relative link leads to a file; in a block fenced as `sh`, a script of this
project exists and may be executed, a `cmake --preset` is in CMakePresets.json, and (with --program)
`troika COMMAND --option` is known to `troika COMMAND --help`, or to the help of a command that this names.
With --program the same holds for the commands that texts in src/ advise, and an option that they mark,
‹context›, is one of some command. Exits with 1 and a line for each finding.
"""
import argparse
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

from code_texts import texts_of

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)")
# In the texts of code: commands in quotes, and marks of options.
COMMAND = re.compile(r"'troika ([^'\"]*)'")
MARK = re.compile(r"‹([a-z0-9-]+)›")


def lists_option(text, option):
    """Whether a help has this option, whole: the name of another one may begin or end so."""
    return re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text) is not None


def documents(root):
    skipped = {"build", ".git"}
    return sorted(path for path in root.rglob("*.md") if path.relative_to(root).parts[0] not in skipped)


def code_lines(text):
    """(line number, command) of every line in a block fenced as sh; continued lines are joined."""
    language, joined, first = None, "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if match := FENCE.match(line):
            language = match.group(1) if language is None else None
            continue
        if language != "sh":
            continue
        first = first if joined else number
        joined += line.rstrip("\\")
        if not line.endswith("\\"):
            yield first, joined
            joined = ""


def broken_links(text):
    language = None
    for number, line in enumerate(text.splitlines(), 1):
        if match := FENCE.match(line):
            language = match.group(1) if language is None else None
        if language is None:
            for target in LINK.findall(line):
                if not re.match(r"[a-z]+:|#", target):
                    yield number, target.split("#")[0]


class Program:
    """What `troika --help` says, asked once for each command."""

    def __init__(self, path):
        self.path = path

    @functools.lru_cache(maxsize=None)
    def help(self, *command):
        done = subprocess.run([self.path, *command, "--help"], capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr if done.returncode == 0 else None

    @functools.lru_cache(maxsize=None)
    def commands(self):
        names = re.findall(r"^\s+([a-z]+)  ", self.help() or "", re.MULTILINE)
        return [name for name in names if self.help(name) is not None]

    def options_text(self, command):
        """A command's --help, and that of commands to which it sends people for more of its options."""
        text = self.help(command)
        others = re.findall(r"'troika\s+([a-z]+)\s+--help'", text or "")
        return text and "\n".join([text, *(self.help(other) or "" for other in others)])

    def has_option(self, option):
        return any(lists_option(self.help(command), f"--{option}") for command in self.commands())

    def problems(self, words):
        if not words:
            return
        command = words[0]
        if command.startswith("-"):
            text, options = self.help(), words
        else:
            # Asked for all commands first: an unknown one may print the general help and succeed.
            if not re.search(rf"^\s+{re.escape(command)}\b", self.help() or "", re.MULTILINE):
                yield f"troika has no command {command}"
                return
            text, options = self.options_text(command), words[1:]
        if text is None:
            yield f"troika {command} --help fails"
            return
        for option in options:
            option = option.split("=")[0]
            if re.match(r"--?[a-zA-Z]", option) and not lists_option(text, option):
                yield f"troika {command} has no option {option}"


def command_problems(root, line, program):
    presets = {p["name"] for p in json.loads((root / "CMakePresets.json").read_text())["configurePresets"]}
    for part in re.split(r"[|;&]+", re.sub(r"\s#.*|^#.*", "", line)):
        try:
            words = shlex.split(part)
        except ValueError as error:
            yield f"{error}: {part}"
            continue
        while words and re.match(r"[A-Z_]+=", words[0]):
            words = words[1:]
        if not words:
            continue
        name = words[0]
        if name.startswith("scripts/") or name.startswith(".ci/"):
            if not os.access(root / name, os.X_OK):
                yield f"{name} is no script of this project that may be executed"
        elif name == "cmake" and "--preset" in words and words[-1] not in presets:
            yield f"CMakePresets.json has no preset {words[-1]}"
        elif name.split("/")[-1] == "troika" and program:
            yield from program.problems(words[1:])


def texts_of_code(root):
    """(file, text) of every text in the program's own code."""
    for path in sorted((root / "src").rglob("*")):
        if path.suffix in {".h", ".cc"} and not re.search(r"_(test|test_support|fuzz)$", path.stem):
            for _, text in texts_of(path.read_text(encoding="utf-8")):
                yield path.relative_to(root), text


def text_problems(root, program):
    for where, text in texts_of_code(root):
        for option in MARK.findall(text):
            if not program.has_option(option):
                yield f"{where}: no command has an option --{option}"
        for command in COMMAND.findall(text):
            # What a value will be is not known; the words around it are.
            words = [word for word in command.split() if "{" not in word and word != "COMMAND"]
            for problem in program.problems(words):
                yield f"{where}: '{command}': {problem}"


def findings(root, program):
    if program:
        yield from text_problems(root, program)
    for path in documents(root):
        text = path.read_text(encoding="utf-8")
        where = path.relative_to(root)
        for number, target in broken_links(text):
            if not (path.parent / target).exists():
                yield f"{where}:{number}: the link leads nowhere: {target}"
        for number, line in code_lines(text):
            for problem in command_problems(root, line, program):
                yield f"{where}:{number}: {problem}"


def main():
    here = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=here)
    parser.add_argument("--program", type=pathlib.Path)
    options = parser.parse_args()
    program = Program(options.program) if options.program else None
    problems = list(findings(options.root.resolve(), program))
    print("\n".join(problems) if problems else "The documents name only what exists.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
