#!/usr/bin/env python3
"""Measures passes of 1 to 64 tokens in every block format beside llama.cpp, and writes the tables of docs/performance.md.

Usage: scripts/width_tables.py --peer FOLDER [--kernels avx2] [--program FILE] [--again] TYPE...
       scripts/width_tables.py

FOLDER holds llama-batched-bench; for --kernels avx2, which holds ours to AVX2, one that was built for AVX2. Each type
is measured on a model of random weights in the shapes of MODEL, which is made in build/ and removed again: first ours,
then the peer's, then both once more, and of each the better time counts, for other programs only ever make it longer.
What was measured is kept in build/widths.json; without types only the tables are written again.
"""
import argparse
import json
import pathlib
import sys

from tables import ROOT, Kept, replace, run, table

PAGE = ROOT / "docs" / "performance.md"
MODEL = "qwen3-0.6b"
WIDTHS = (1, 2, 4, 8, 16, 32, 64)
ROUNDS = 2
STEPS = 4  # of the peer, for each width
# How many of the instructions for a group of weights and a token multiply: a group of 32 has eight that do and three
# others (factors, conversion, sum), one of 16 has four, and least weights take one instruction more.
SHARES = {"q4_0": (8, 11), "q4_1": (8, 12), "q5_0": (8, 11), "q5_1": (8, 12), "q8_0": (8, 11), "iq4_nl": (8, 11), "mxfp4": (8, 11),
          "q4_k": (8, 12), "q5_k": (8, 12), "iq4_xs": (8, 11), "q6_k": (4, 7), "q3_k": (4, 7), "q2_k": (4, 8)}
SETS = {"avx512": "AVX-512 VNNI", "avx2": "AVX2"}


def ours(program, model, kernels):
    """Milliseconds of each width, and what reading and multiplying would take, of each the least of some rounds."""
    found = json.loads(run(program, "bench", model, "--no-plan", "-t", 2, "--kernels", kernels, "-r", 5, "--widths",
                           ",".join(map(str, WIDTHS)), "--json"))
    if None in [row[key] for row in found["widths"] for key in ("read_ms", "multiply_ms")]:
        sys.exit("error: a peak of this machine is not known, for want of free memory or of kernels. Free memory and try again.")
    return {key: [row[key] for row in found["widths"]] for key in ("ms", "read_ms", "multiply_ms")}


def peers(model, folder):
    """Milliseconds of a step of so many sequences, logits of each wanted as in ours."""
    text = run(folder / "llama-batched-bench", "-m", model, "-t", 2, "-tb", 2, "-c", 64 * (STEPS + 8), "-npp", 1, "-ntg", STEPS,
               "-npl", ",".join(map(str, WIDTHS)), "--output-format", "jsonl")
    rows = {row["pl"]: row for row in map(json.loads, filter(lambda line: line.startswith("{"), text.splitlines()))}
    return [1e3 * rows[width]["t_tg"] / STEPS for width in WIDTHS]


def best(lists):
    return [min(values) for values in zip(*lists)]


def measure(options, type_name):
    model = ROOT / "build" / f"widths-{type_name}.gguf"
    run(options.program, "synth", "--like", MODEL, "--type", type_name, model)
    try:
        rounds = [(ours(options.program, model, options.kernels), peers(model, options.peer)) for _ in range(ROUNDS)]
    finally:
        model.unlink()
    return {**{key: best(mine[key] for mine, _ in rounds) for key in ("ms", "read_ms", "multiply_ms")},
            "peer_ms": best(theirs for _, theirs in rounds)}


def bound_ms(found, i, share):
    return max(found["read_ms"][i], found["multiply_ms"][i] * share[1] / share[0])


def rate_table(kept, kernels):
    """Tokens a second, and how many times as many as the peer's."""
    rows = []
    for name in SHARES:
        if f"{kernels}: {name}" in kept:
            found = kept[f"{kernels}: {name}"]
            rows.append([name.upper(), *(f"{1e3 * width / ms:.0f}, {peer / ms:.2f}" for width, ms, peer in
                                         zip(WIDTHS, found["ms"], found["peer_ms"]))])
    return table(["weights", *map(str, WIDTHS)], rows)


def bound_table(kept):
    """The time over what reading or multiplying would take, whichever is more."""
    rows = []
    for name, share in SHARES.items():
        if f"avx512: {name}" in kept:
            found = kept[f"avx512: {name}"]
            rows.append([name.upper(), f"{share[0]} of {share[1]}", *(f"{ms / bound_ms(found, i, share):.2f}" for i, ms in
                                                                   enumerate(found["ms"]))])
    return table(["weights", "multiply", *map(str, WIDTHS)], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("types", nargs="*", choices=[*SHARES, []])
    parser.add_argument("--peer", type=pathlib.Path)
    parser.add_argument("--kernels", choices=SETS, default="avx512")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "release" / "troika")
    parser.add_argument("--again", action="store_true", help="forget what is kept of these types")
    options = parser.parse_args()
    if options.types and options.peer is None:
        parser.error("--peer says where llama-batched-bench is.")
    kept = Kept(ROOT / "build" / "widths.json")
    for name in options.types:
        key = f"{options.kernels}: {name}"
        if options.again:
            kept.forget(key)
        kept.get(key, lambda n=name: measure(options, n))
    page = PAGE.read_text("utf-8")
    for kernels in SETS:
        page = replace(page, f"widths {kernels}", rate_table(kept.found(), kernels))
    PAGE.write_text(replace(page, "widths bound", bound_table(kept.found())), "utf-8")


if __name__ == "__main__":
    main()
