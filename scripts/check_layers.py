#!/usr/bin/env python3
"""Checks that every room of src/ includes only itself and the rooms above it, and what it uses.

Usage: scripts/check_layers.py [ROOT]

Tests follow the same rule, except that they may use tests/support. A file that uses a macro of a
header includes that header by itself: a group of files compiles without the line when another file
of the group has it. Exits with 1 and a line for each include that breaks a rule.
"""
import pathlib
import re
import sys

# Rooms that must not know which concrete lanes exist see the door alone.
ONLY_THE_DOOR = {"schedule", "solve", "draft"}
DOOR = {"lanes/lane.h", "lanes/machine.h", "lanes/subgraph.h", "lanes/weight_forms.h"}


def rooms(root):
    text = (root / "cmake" / "rooms.cmake").read_text()
    return re.search(r"set\(TROIKA_ROOMS ([^)]*)\)", text).group(1).split()


def sources(root):
    return [path for path in sorted((root / "src").rglob("*")) if path.suffix in {".h", ".cc", ".inl"}]


def missing_includes(root):
    """Uses of a macro that one header defines, in .cc and .h files that do not name the header."""
    definitions = {}
    for path in sources(root):
        for macro in re.findall(r"^#define (TROIKA_\w+)", path.read_text(), re.MULTILINE):
            definitions.setdefault(macro, []).append(path)
    headers = {macro: paths[0] for macro, paths in definitions.items()
               if len(paths) == 1 and paths[0].suffix == ".h"}
    for path in sources(root):
        text = path.read_text()
        for macro, header in headers.items():
            name = str(header.relative_to(root / "src"))
            if path.suffix == ".inl" or path == header or f'#include "{name}"' in text:
                continue
            if match := re.search(rf"\b{macro}\b", text):
                number = text.count("\n", 0, match.start()) + 1
                yield f"{path.relative_to(root)}:{number}: {macro} is used without #include \"{name}\""


def broken_includes(root, order):
    for path in sources(root):
        room = path.relative_to(root / "src").parts[0]
        allowed = set(order[: order.index(room) + 1])
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#include "([^"]+)"', line)
            if not match:
                continue
            target = match.group(1)
            other = target.split("/")[0]
            where = f"{path.relative_to(root)}:{number}"
            if other in order and other not in allowed:
                yield f"{where}: {room}/ includes {target}, but {other}/ stands below it"
            if room in ONLY_THE_DOOR and other == "lanes" and target not in DOOR:
                yield f"{where}: {room}/ may see the door of lanes/ only ({', '.join(sorted(DOOR))}), not {target}"
            if other == "tests" and not (path.stem.endswith("_test") and target.startswith("tests/support/")):
                yield f"{where}: only tests may include {target}, and only from tests/support"


def main():
    here = pathlib.Path(__file__).resolve().parent.parent
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else here
    problems = list(broken_includes(root, rooms(root))) + list(missing_includes(root))
    print("\n".join(problems) if problems else "Every room includes the rooms above it only, and what it uses.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
