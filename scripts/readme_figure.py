#!/usr/bin/env python3
"""Measures the speed of generation and writes it, with what the machine could do, into README.md.

Usage: scripts/readme_figure.py [--name NAME] [--type TYPE] [--print]

Makes a model of the real shapes of NAME with random weights (speed does not depend on their values), runs
`troika bench` on it, and replaces what stands between the two marks. --print changes nothing.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "release" / "troika"
MARKS = re.compile(r"(<!-- figure:[^\n]*-->\n).*?(<!-- end of figure -->)", re.DOTALL)


def processor_name():
    match = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return match.group(1) if match else os.uname().machine


def bench(name, element_type):
    model = ROOT / "build" / "models" / f"{name}-{element_type}.gguf"
    model.parent.mkdir(parents=True, exist_ok=True)
    if not model.exists():
        part = model.with_suffix(".part")
        subprocess.run([PROGRAM, "synth", "--like", name, "--type", element_type, part], check=True)
        part.rename(model)
    done = subprocess.run([PROGRAM, "bench", model, "-p", "128", "-n", "64", "--json"], check=True,
                          stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def sentence(name, element_type, result):
    decode, read_gb_s = result["decode"], result["peaks"]["read_gb_s"]
    return (f"**{decode['tokens_per_s']:.1f} tokens/s** for the shapes of {name} in {element_type.upper()} on "
            f"{len(os.sched_getaffinity(0))} cores ({processor_name()}): {decode['fraction_of_bandwidth']:.0%} of "
            f"the {read_gb_s:.1f} GB/s that\nthe same run measured when those threads only read memory. "
            f"`scripts/readme_figure.py` measures it again.\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="qwen2.5-0.5b")
    parser.add_argument("--type", default="q8_0")
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    if not PROGRAM.exists():
        sys.exit(f"error: {PROGRAM} is missing: build it with scripts/try.sh first")
    text = sentence(options.name, options.type, bench(options.name, options.type))
    readme = ROOT / "README.md"
    old = readme.read_text()
    if not MARKS.search(old):
        sys.exit("error: README.md has no marks for the figure")
    if not options.print:
        readme.write_text(MARKS.sub(lambda marks: marks.group(1) + text + marks.group(2), old))
    print(text, end="")


if __name__ == "__main__":
    main()
