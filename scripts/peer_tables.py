#!/usr/bin/env python3
"""Measures models beside llama.cpp and writes the tables of docs/performance.md.

Usage: scripts/peer_tables.py --peer FOLDER [--runs PART]... [--pairs N] [--repetitions N] [--program FILE] [--kernels avx2] [--mark peer-avx2] [--print] MODEL.gguf...
       scripts/peer_tables.py --peer FOLDER --starts MODEL.gguf...
       scripts/peer_tables.py

FOLDER holds llama-bench (and llama-completion for --starts). Each run alternates between the two programs. --runs takes
only those whose names have the text in them; it may be given several times. What was measured is kept in build/peer.json and replaced one by one, so that a
long list can be measured in parts; without models only the tables are written again. --kernels avx2 holds ours to AVX2 and marks the rows; give a peer built for AVX2 then.
--mark names the table: 'peer-avx2' is that of a machine without AVX-512. A plan of `troika tune` is used by the rows called
tuned alone: run `troika tune MODEL` before.
--starts measures whole processes instead: from the start to the first token, and the memory they had resident.
"""
import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import time

from tables import ROOT, Kept, replace, table

PROGRAM = ROOT / "build" / "release" / "troika"
PAGE = ROOT / "docs" / "performance.md"
KEPT = ROOT / "build" / "peer.json"
PLAIN = ["-n", "0", "--threads", "2"]
PROMPTS = [*PLAIN, "--prefill", "int8"]
DEEP = ["-p", "8", "-n", "24", "--depth", "4000", "--context", "4400", "--prefill", "int8", "--threads", "2"]
# Name, our options, options of the peer's own.
RUNS = [
    ("prompt of 128, no options", ["-p", "128", *PLAIN], ""),
    ("prompt of 512, no options", ["-p", "512", *PLAIN], ""),
    ("prompt of 2048, no options", ["-p", "2048", *PLAIN], ""),
    ("prompt of 128, tuned", ["-p", "128", "-n", "0"], ""),
    ("prompt of 512, tuned", ["-p", "512", "-n", "0"], ""),
    ("prompt of 2048, tuned", ["-p", "2048", "-n", "0"], ""),
    ("prompt of 128, int8", ["-p", "128", *PROMPTS], ""),
    ("prompt of 512, int8", ["-p", "512", *PROMPTS], ""),
    ("prompt of 512, bf16", ["-p", "512", *PLAIN, "--prefill", "bf16"], ""),
    ("prompt of 2048, int8", ["-p", "2048", *PROMPTS], ""),
    ("prompt of 4096, int8", ["-p", "4096", "--context", "4400", *PROMPTS], ""),
    ("generation, 2 threads", ["-p", "8", "-n", "32", "--threads", "2"], ""),
    ("generation, 1 thread", ["-p", "8", "-n", "32", "--threads", "1"], ""),
    ("generation after 4000", DEEP, ""),
    ("generation after 4000, Q8_0 cache", [*DEEP, "--kv", "q8_0"], " -ctk q8_0 -ctv q8_0 -fa 1"),
]
PROMPT = "Once upon a time there was a little dog who lived in a house by the sea."


def measure(model, options, name, ours, theirs):
    command = [options.program, "bench", model, "-r", str(options.repetitions), *ours, "--pairs", str(options.pairs),
               "--compare", shlex.quote(str(options.peer / "llama-bench")) + theirs, "--json"]
    if "tuned" not in name:
        command.append("--no-plan")
    if options.kernels:
        command += ["--kernels", options.kernels]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    row = next(r for r in found["compare"]["rows"] if r["what"].split()[0] == ("decode" if "gen" in name else "prefill"))
    fraction = found["decode"]["fraction_of_bandwidth"] if "gen" in name else found["prefill"][0]["fraction_of_peak"]
    if fraction is None or found["peaks"]["read_gb_s"] is None:
        sys.exit("error: a peak of this machine is not known, for want of free memory or of kernels. Free memory and try again.")
    return {"here": row["tokens_per_s"], "peer": row["peer_tokens_per_s"], "ratio": row["ratio"], "lowest": row["lowest"],
            "highest": row["highest"], "pairs": options.pairs, "fraction": fraction, "read_gb_s": found["peaks"]["read_gb_s"],
            "build": found["compare"]["peer"].get("build_commit", "")}


def speed_table(kept):
    rows = []
    for key, r in kept.items():
        model, what = key.split(": ", 1)
        bound = f"{r['fraction']:.0%}" + (f" of {r['read_gb_s']:.0f} GB/s" if "gen" in what else "")
        rows.append([model, what, f"{r['here']:.{0 if r['here'] > 100 else 1}f}", f"{r['peer']:.1f}",
                     f"{r['ratio']:.2f} ({r['lowest']:.2f}–{r['highest']:.2f} of {r['pairs']})", bound])
    return table(["model", "what", "here", "llama.cpp", "ratio", "of the peak"], rows)


def start_of(command):
    began = time.time()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]} failed; run it by hand to see why: {' '.join(map(str, command))}")
    return time.time() - began, usage.ru_maxrss * 1024e-6


def starts(model, options):
    """Seconds and megabytes of each way to answer one token, in alternation, the file in the page cache."""
    same = ["-p", PROMPT, "-n", "1", "-t", "2", "-c", "2048"]
    peer = [options.peer / "llama-completion", "-m", model, *same, "-no-cnv", "--no-warmup"]
    ways = {"here": [options.program, "run", model, *same], "here, --load map": [options.program, "run", model, *same, "--load", "map"],
            "llama.cpp": peer, "llama.cpp, --no-repack": [*peer, "--no-repack"]}
    runs = {way: [] for way in ways}
    for _ in range(5):
        for way, command in ways.items():
            runs[way].append(start_of(command))
    return {way: [statistics.median(s for s, _ in found), min(s for s, _ in found), max(s for s, _ in found),
                  max(mb for _, mb in found)] for way, found in runs.items()}


def start_table(kept):
    ways = list(next(iter(kept.values())))
    rows = [[model, *(f"{s:.2f} s ({low:.2f}–{high:.2f}), {mb:.0f} MB" for s, low, high, mb in found.values())]
            for model, found in kept.items()]
    return table(["model", *ways], rows)


def keep(kept, part, key, result):
    """Adds a result to those of its part, in place of an older one."""
    kept.change(lambda found: {**found, part: {**found.get(part, {}), key: result}})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--peer", type=pathlib.Path)
    parser.add_argument("--runs", action="append")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--program", type=pathlib.Path, default=PROGRAM)
    parser.add_argument("--kernels", default="")
    parser.add_argument("--mark", default="peer")
    parser.add_argument("--starts", action="store_true")
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    if options.models and options.peer is None:
        parser.error("--peer says where llama-bench is.")
    kept = Kept(KEPT)
    for model in options.models:
        name = pathlib.Path(model).stem
        pathlib.Path(model).read_bytes()  # into the page cache
        if options.starts:
            keep(kept, "starts", name, starts(model, options))
            continue
        for what, ours, theirs in RUNS:
            if any(part in what for part in options.runs or [""]):
                label = what + (f", {options.kernels}" if options.kernels else "")
                keep(kept, options.mark, f"{name}: {label}", measure(model, options, what, ours, theirs))
    blocks = {part: (start_table if part == "starts" else speed_table)(rows) for part, rows in kept.found().items() if rows}
    page = PAGE.read_text("utf-8")
    for name, text in blocks.items():
        if options.print:
            print(text)
            continue
        page = replace(page, name, f"\n{text}\n")
    if not options.print:
        PAGE.write_text(page, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
