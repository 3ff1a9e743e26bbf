#!/usr/bin/env python3
"""Writes into docs/powerinfer-2.md how fast a dense model generates, and reads a prompt, with less memory than its weights take.

    python3 scripts/dense_tables.py MODEL [--program build/release/troika] [--llama PATH] [--shares 50,25] [--disks 0,1000] [--rounds 3]
        [--kept build/dense.json]

MODEL comes from `troika synth --like mistral-7b --type q4_0`. A share is that of the file's size which all of the process may take, in percent; a
disk is how many megabytes a second may be read, 0 as many as it gives. Each run is in a cgroup of its own, of that size for maps, and that size and 64 MB
for the others, with the file not in the page cache; the rounds of all ways alternate. --llama is a program of llama.cpp's that generates from the same
file mapped (llama-completion, told not to repack its weights, which would make a second copy of them in memory). Needs root, and a machine that does
nothing else.
"""
import argparse
import json
import pathlib
import re
import statistics

from limited_runs import limited_process, limited_run
from tables import ROOT, Kept, replace, table

PAGE = ROOT / "docs" / "powerinfer-2.md"
COMMON = ["--temp", "0", "--ignore-end", "--draft", "none", "--no-plan", "--context", "256", "--json"]
WAYS = {"map": "the file mapped", "llama": "llama.cpp, the file mapped", "blocks": "blocks take turns"}
PROMPT = 128


def n_steps(options, way):
    return options.steps if way == "blocks" else options.map_steps


def key_of(options, megabytes, disk, way):
    """By what a result is kept: all that another call may give and that changes it."""
    name = "llama-completion" if way == "llama" else way  # earlier results are those of a program that copies its weights
    return f"{options.model.stem} {megabytes} MB {disk} MB/s {name} {n_steps(options, way)} steps"


def speed_of_llama(words):
    """Tokens a second of the steps behind the prompt, from what llama-completion says at its end; None where it says nothing."""
    found = re.search(r"(?<!prompt )eval time\s*=\s*([\d.]+) ms\s*/\s*(\d+) runs", words)
    return 1000 * int(found[2]) / float(found[1]) if found else None


def llama_run(options, megabytes, disk):
    """What an answer of llama.cpp's came to, with the file mapped and nothing beside the map."""
    command = [options.llama, "-m", str(options.model), "-p", "x", "-n", str(n_steps(options, "llama") + 1), "-t", "2", "-c", "256", "--temp", "0",
               "--ignore-eos", "-no-cnv", "--no-warmup", "--no-repack"]
    done = limited_process(command, [options.model], megabytes, options.limit_s, disk)
    if "problem" in done:
        return done
    speed = speed_of_llama(done["err"])
    return {"tokens_per_s": speed, "peak_mb": done["peak_mb"]} if speed else {"problem": "said no times at its end"}


def one_run(options, way, megabytes, disk):
    """What an answer came to."""
    if way == "llama":
        return llama_run(options, megabytes, disk)
    words = ["--load", "map"] if way == "map" else ["--memory", f"{megabytes}000000"]
    command = [str(options.program), "run", str(options.model), "-p", "x", "-n", str(n_steps(options, way)), *COMMON, *words]
    return limited_run(command, [options.model], megabytes + (0 if way == "map" else 64), options.limit_s, disk)


def one_prompt(options, way, megabytes):
    """Tokens a second of a prompt of 128 tokens; the whole file may be in memory where it is mapped."""
    words = ["--load", "map"] if way == "map" else ["--memory", f"{megabytes}000000"]
    command = [str(options.program), "bench", str(options.model), "-p", str(PROMPT), "-n", "1", "-r", "3", "--context", "256", "--json", "--no-plan", *words]
    room = 2 * options.model.stat().st_size // 1000000 if way == "map" else megabytes + 64
    done = limited_process(command, [options.model], room, options.limit_s)
    return done if "problem" in done else {"tokens_per_s": json.loads(done["out"])["prefill"][0]["tokens_per_s"]}


def median(rounds):
    speeds = [one["tokens_per_s"] for one in rounds if "tokens_per_s" in one]
    return statistics.median(speeds) if speeds else None


def of_reading(rounds):
    """Which part of a token's time reading in order alone would take, at the rate of the same run."""
    shares = []
    for one in rounds:
        stream = one.get("stream")
        if stream and stream["read_mb_per_s"] > 0:
            shares.append(stream["bytes_per_pass"] / 1e6 / stream["read_mb_per_s"] * one["tokens_per_s"])
    return f"{100 * statistics.median(shares):.0f} %" if shares else ""


def answer_rows(results, budgets):
    rows = []
    for (megabytes, disk, way), rounds in results.items():
        speed = median(rounds)
        if speed is None:
            rows.append([f"{budgets[megabytes]:g} %", f"{megabytes:,} MB", f"{disk:,} MB/s" if disk else "free", WAYS[way],
                         rounds[0]["problem"].split(".")[0] if rounds else "", "", "", ""])
            continue
        maps = [m for m in (median(results.get((megabytes, disk, other), [])) for other in ("map", "llama")) if m]
        times = f"{speed / max(maps):.2f} ×" if way == "blocks" and maps else ""
        speeds = [one["tokens_per_s"] for one in rounds if "tokens_per_s" in one]
        spread = f" ({min(speeds):.2f} to {max(speeds):.2f})" if len(speeds) > 1 else ""
        rows.append([f"{budgets[megabytes]:g} %", f"{megabytes:,} MB", f"{disk:,} MB/s" if disk else "free", WAYS[way], f"{speed:.2f}{spread}", times,
                     of_reading(rounds), f"{max(one['peak_mb'] for one in rounds if 'peak_mb' in one):,.0f} MB"])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--program", default=ROOT / "build" / "release" / "troika")
    parser.add_argument("--llama", help="llama-completion, to measure it, too")
    parser.add_argument("--shares", default="50,25")
    parser.add_argument("--disks", default="0,1000")
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--steps", default=12, type=int)
    parser.add_argument("--map-steps", default=4, type=int)
    parser.add_argument("--limit-s", default=180, type=int)
    parser.add_argument("--kept", default=ROOT / "build" / "dense.json", type=pathlib.Path)
    parser.add_argument("--only-kept", action="store_true", help="measure nothing, write what there is")
    options = parser.parse_args()
    kept = Kept(options.kept, not options.only_kept)
    size_mb = options.model.stat().st_size / 1e6
    budgets = {round(size_mb * float(share) / 100): float(share) for share in options.shares.split(",")}
    ways = [way for way in WAYS if way != "llama" or options.llama]
    results = {(megabytes, int(disk), way): [] for megabytes in budgets for disk in options.disks.split(",") for way in ways}
    prompts = {(megabytes, way): [] for megabytes in budgets for way in ("map", "blocks")}
    kept.fill(results, options.rounds, lambda megabytes, disk, way: one_run(options, way, megabytes, disk), lambda key: key_of(options, *key))
    kept.fill(prompts, options.rounds, lambda megabytes, way: one_prompt(options, way, megabytes),
              lambda key: f"{options.model.stem} prompt {key[0]} MB {key[1]}")
    text = table(["of the file", "all memory", "disk", "way", "tokens/s", "against the better map", "reading, of a token's time", "at most in the cgroup"],
                 answer_rows(results, budgets))
    rows = []
    for megabytes, share in budgets.items():
        whole, part = median(prompts[megabytes, "map"]), median(prompts[megabytes, "blocks"])
        if whole and part:
            rows.append([f"{share:g} %", f"{megabytes:,} MB", f"{part:.1f}", f"{whole:.1f}", f"{100 * part / whole:.0f} %"])
    if rows:
        text += f"\n\nPrompts of {PROMPT} tokens, tokens/s:\n\n" + table(["of the file", "all memory", "blocks take turns", "all mapped and in memory", "share"], rows)
    PAGE.write_text(replace(PAGE.read_text("utf-8"), "dense here", text), "utf-8")


if __name__ == "__main__":
    main()
