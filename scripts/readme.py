#!/usr/bin/env python3
"""Measures what the README's first screen shows: a table beside llama.cpp.

Usage: scripts/readme.py --peer FOLDER [--pairs N] [--print]

FOLDER holds llama-bench. Makes models of real shapes with random weights (speed does not depend on their values), runs
`troika bench` on each in alternation with the peer, without any option, and replaces what stands between the marks in
README.md. --print changes nothing. scripts/pictures.py draws the picture below the table.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import textwrap

from tables import ROOT, processor_name

PROGRAM = ROOT / "build" / "release" / "troika"
MARKS = re.compile(r"(<!-- measured:[^\n]*-->\n).*?(<!-- end of what was measured -->)", re.DOTALL)
# A name of `troika synth --list`, its type, and what people call the model.
MODELS = [("qwen2.5-0.5b", "q8_0", "Qwen2.5 0.5B, 8 bits"), ("qwen2-1.5b", "q4_0", "Qwen2 1.5B, 4 bits")]
PROMPT_TOKENS, ANSWER_TOKENS = 512, 64


def model_file(name, element_type):
    model = ROOT / "build" / "models" / f"{name}-{element_type}.gguf"
    model.parent.mkdir(parents=True, exist_ok=True)
    if not model.exists():
        part = model.with_suffix(".part")
        subprocess.run([PROGRAM, "synth", "--like", name, "--type", element_type, part], check=True)
        part.rename(model)
    return model


def bench(model, options):
    done = subprocess.run([PROGRAM, "bench", model, "--no-plan", "-p", str(PROMPT_TOKENS), "-n", str(ANSWER_TOKENS),
                           "--pairs", str(options.pairs), "--compare", shlex.quote(str(options.peer / "llama-bench")), "--json"],
                          check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def table(options):
    lines = ["| model | | Troika | llama.cpp | times as fast |", "|---|---|---:|---:|---:|"]
    shares = []
    for name, element_type, title in MODELS:
        found = bench(model_file(name, element_type), options)
        for row in found["compare"]["rows"]:
            what = "reads a prompt" if row["what"].startswith("prefill") else "writes an answer"
            lines.append(f"| {title} | {what} | {row['tokens_per_s']:.0f} | {row['peer_tokens_per_s']:.0f} | "
                         f"{row['ratio']:.2f} |")
        shares.append(found["decode"]["fraction_of_bandwidth"])
        if shares[-1] is None:
            sys.exit("error: the rate of reading is not known, for want of free memory. Free some and try again.")
    cores = len(os.sched_getaffinity(0))
    text = (f"Tokens, which are words or parts of words, per second on {cores} cores ({processor_name()}); both programs "
            f"ran without options. The prompt has {PROMPT_TOKENS} tokens and the answer {ANSWER_TOKENS}. The models have real "
            "shapes and random weights, which are as fast as trained ones. To write a token all weights must be read: answers "
            f"run at {min(shares):.0%} to {max(shares):.0%} of the rate at which those cores can read memory at all. "
            "`scripts/readme.py` measures it again.")
    return "\n".join([*lines, "", *textwrap.wrap(text, 118), ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=pathlib.Path, required=True, help="the folder of llama-bench")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    if not PROGRAM.exists():
        sys.exit(f"error: {PROGRAM} is missing: build it with scripts/try.sh first")
    text = table(options)
    readme = ROOT / "README.md"
    old = readme.read_text()
    if not MARKS.search(old):
        sys.exit("error: README.md has no marks for what is measured")
    if not options.print:
        readme.write_text(MARKS.sub(lambda marks: marks.group(1) + text + marks.group(2), old))
    print(text, end="")


if __name__ == "__main__":
    main()
