#!/usr/bin/env python3
"""Draws the pictures of the documents that a virtual phone gives, or checks that they are what the program draws.

Usage: scripts/pictures.py [--program PROGRAM] [--check] [NAME...]

A NAME is that of a file in docs/, such as timeline.svg; without one all are drawn. The time of a virtual phone is modelled, so that
a picture is the same everywhere, to the byte. --check changes nothing and exits with 1 where a picture differs.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

from tables import ROOT

PROMPT = ROOT / "texts" / "the-river-bank.txt"
PROMPT_CHARACTERS = 2600
PHONES = ["--phones", ROOT / "phones"]
# What each picture is drawn by; the prompt is read by those that read a prompt.
PICTURES = {
    "timeline.svg": ["run", ROOT / "models" / "troika-silu-q8_0.gguf", "--machine", ROOT / "phones" / "8gen3.json",
                     "--stack", "llm.npu", "--npu-step", "out-of-order", "--npu-prune", "0", "--lanes", "cpu;npu",
                     "--no-plan", "-f", "-", "--draft", "none", "-n", "4", "--seed", "1"],
    "head-pipeline.svg": ["reproduce", "shadowattn", *PHONES],
    "layout-switch.svg": ["reproduce", "sd.npu", *PHONES],
}


def draw(program, name, path):
    done = subprocess.run([program, *PICTURES[name], "--timeline", path], input=PROMPT.read_text("utf-8")[:PROMPT_CHARACTERS],
                          text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"error: {name}: the program failed:\n{done.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", default=[])
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "release" / "troika")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if not options.program.exists():
        sys.exit(f"error: {options.program} is missing: build it with scripts/try.sh first")
    unknown = sorted(set(options.names) - set(PICTURES))
    if unknown:
        parser.error(f"{unknown[0]} is none of {', '.join(PICTURES)}")
    differ = []
    for name in options.names or PICTURES:
        kept = ROOT / "docs" / name
        if not options.check:
            draw(options.program, name, kept)
            continue
        with tempfile.TemporaryDirectory() as folder:
            drawn = pathlib.Path(folder) / name
            draw(options.program, name, drawn)
            if not kept.exists() or drawn.read_bytes() != kept.read_bytes():
                differ.append(name)
    if differ:
        sys.exit(f"error: the program draws {', '.join(differ)} otherwise. Look at what scripts/pictures.py draws, and commit it.")


if __name__ == "__main__":
    main()
