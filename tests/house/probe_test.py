"""The loops that measure what this processor can do must do what they count.

    python3 tests/house/probe_test.py LIBRARY

A compiler that finds out that two sums of a loop are equal computes one of them, and the peak appears to be
several times too high. Timing cannot be tested; the instructions can. x86-64, not instrumented, with objdump.
"""

import collections
import re
import shutil
import subprocess
import sys

# For each loop: the instructions that multiply, and how many of them the probe counts in a turn.
LOOPS = {
    "avx2::f32": (r"vfmadd", 12),
    "avx2::int8": (r"vpmaddubsw", 12),
    "avxvnni::int8": (r"vpdpbusd", 12),
    "avx512::f32": (r"vfmadd", 12),
    "avx512::int8": (r"vpdpbusd", 12),
    "avx512::bf16": (r"vdpbf16ps", 12),
    "amx::int8": (r"tdpb", 4),
    "amx::bf16": (r"tdpbf16ps", 4),
}


def main():
    if not shutil.which("objdump"):
        print("skipped: objdump is not installed")
        return 0
    command = ["objdump", "-d", "-C", "--no-show-raw-insn", sys.argv[1]]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found, loop = collections.Counter(), None
    for line in listing.splitlines():
        if line.endswith(">:"):
            name = re.search(r"x86::\(anonymous namespace\)::(\w+::\w+)\(unsigned long\)", line)
            loop = name[1] if name and name[1] in LOOPS else None
        elif loop and re.search(LOOPS[loop][0], line):
            found[loop] += 1
    wrong = {k: (found[k], n) for k, (_, n) in LOOPS.items() if found[k] != n}
    for name, (has, wants) in wrong.items():
        print(f"{name} multiplies {has} times a turn and counts {wants}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
