#!/usr/bin/env python3
"""Writes into docs/powerinfer-2.md how fast a mixture of experts generates with less memory than its weights take.

    python3 scripts/expert_tables.py MODEL [--program build/release/troika] [--ways map,in-order,by-route,guessed] [--budgets 4000,2500]
        [--rounds 1] [--steps 24] [--few-steps 6] [--kept build/experts.json]
    python3 scripts/expert_tables.py MODEL --prompts [--rounds 3] [--prompt-budget 4000]
    python3 scripts/expert_tables.py SPARSE --sparse --budgets 3340,1670

With --prompts it writes how fast prompts are instead: the first 2,000 characters of texts/the-river-bank.txt. With --sparse it
writes how fast a mixture is whose experts' neurons are read too: SPARSE comes from `troika synth --like turbosparse-mixtral-47b
--blocks 8 --type q4_0 --plant-sparsity 15% --overlap 0.9`, counted by `troika neurons --tokens 1280 --predictor 256`.

MODEL comes from `troika synth --like qwen1.5-moe-a2.7b --type q4_0`. A budget is the megabytes that all of the process may take. Each run is in a cgroup
(version 1) of its own, of that size for the map, and of that size and 64 MB for the others, with the file not in the page cache; the rounds of all ways
alternate. Few steps are those of ways that read nearly everything for each. Needs root, and a machine that does nothing else.
"""
import argparse
import json
import pathlib
import statistics
import time

from limited_runs import bundle_files, cool, limited_run
from tables import ROOT, Kept, replace, run, table

PAGE = ROOT / "docs" / "powerinfer-2.md"
COMMON = ["-p", "x", "--temp", "1", "--seed", "7", "--ignore-end", "--draft", "none", "--no-plan", "--context", "512", "--json"]
# What each way is called, whether its steps are few, and its options; {} is the budget.
WAYS = {
    "map": ("the file mapped", True, ["--load", "map"]),
    "in-order": ("blocks take turns", True, ["--memory", "{}000000", "--expert-reads", "in-order"]),
    "by-route": ("experts by route", False, ["--memory", "{}000000", "--expert-reads", "by-route"]),
    "guessed": ("experts by route and ahead", False, ["--memory", "{}000000", "--expert-reads", "guessed"]),
}
SPARSE_WAYS = {
    "map": WAYS["map"],
    "by-route": ("experts by route, whole", False, WAYS["by-route"][2]),
    "neurons": ("neurons of chosen experts", False, ["--memory", "{}000000", "--ffn", "by-neuron"]),
    "neurons-in-order": ("the same, gates of all experts in turn", True, ["--memory", "{}000000", "--ffn", "by-neuron", "--expert-reads", "in-order"]),
    "predictor": ("neurons that a predictor names, with their gates", False, ["--memory", "{}000000", "--ffn", "by-neuron", "--neuron-predictor"]),
}
PROMPT = (ROOT / "texts" / "the-river-bank.txt").read_text("utf-8")[:2000]
PROMPT_WAYS = {
    "whole": ("all in memory", ["--load", "map"]),
    "in-order": ("blocks take turns", WAYS["in-order"][2]),
    "by-route": ("experts by route", WAYS["by-route"][2]),
}


def one_prompt(options, way, prefill):
    """Seconds of the prompt and of the whole process, and what was read beside it."""
    words = [word.format(options.prompt_budget) for word in PROMPT_WAYS[way][1]]
    if way == "whole":  # the map's pages are to be there
        with options.model.open("rb") as file:
            while file.read(1 << 26):
                pass
    else:
        cool([options.model])
    start = time.monotonic()
    told = json.loads(run(options.program, "run", options.model, "-p", PROMPT, "-n", "1", "--prefill", prefill, *COMMON[2:-3], "--context", "1024", "--json", *words))
    stream = told.get("stream") or {}
    experts = stream.get("experts") or {}
    return {"n_tokens": told["prefill"]["tokens"], "prompt_s": told["prefill"]["seconds"], "all_s": time.monotonic() - start,
            "read_bytes": stream.get("read_bytes", 0) + experts.get("read_bytes", 0)}


def prompt_table(options, kept):
    """Rounds in alternation: medians of seconds, and of gigabytes that were read while the prompt was computed."""
    results = {(prefill, way): [] for prefill in ("same", "bf16", "auto") for way in PROMPT_WAYS}
    for i in range(options.rounds):
        for (prefill, way), rounds in results.items():
            result = kept.get(f"{options.model.stem} prompt {options.prompt_budget} MB {prefill} {way} {i}",
                              lambda way=way, prefill=prefill: one_prompt(options, way, prefill))
            if result:
                rounds.append(result)
    rows = []
    for (prefill, way), rounds in results.items():
        if rounds:
            median = {key: statistics.median(result[key] for result in rounds) for key in rounds[0]}
            seconds = [result["prompt_s"] for result in rounds]
            rows.append([f"`{prefill}`", PROMPT_WAYS[way][0], f"{median['prompt_s']:.2f}" + (f" ({min(seconds):.2f} to {max(seconds):.2f})" if len(seconds) > 1 else ""),
                         f"{median['all_s']:.1f}", f"{median['read_bytes'] / 1e9:.1f} GB" if median["read_bytes"] else ""])
    text = table(["`--prefill`", "way", "prompt, s", "with loading, s", "read meanwhile"], rows)
    PAGE.write_text(replace(PAGE.read_text("utf-8"), "expert prompts here", text), "utf-8")


def way_of(options, way):
    """How many steps are taken, and the options."""
    _, has_few_steps, words = (SPARSE_WAYS if options.sparse else WAYS)[way]
    return options.few_steps if has_few_steps else options.steps, words


def key_of(options, megabytes, way):
    """By what a result is kept: all that another call may give and that changes it. Ways of both tables with one name are one way."""
    return f"{options.model.stem} {megabytes} MB {way} {way_of(options, way)[0]} steps"


def one_run(options, way, megabytes):
    """What one run came to."""
    n_steps, words = way_of(options, way)
    command = [str(options.program), "run", str(options.model), "-n", str(n_steps), *COMMON, *[word.format(megabytes) for word in words]]
    return limited_run(command, [options.model, *bundle_files()], megabytes + (0 if way == "map" else 64), options.limit_s)


def found(rounds):
    """How many of the experts that tokens took were in memory, how many were guessed, how many were read for nothing."""
    stream = (rounds[0].get("stream") or {}) if rounds else {}
    experts = stream.get("experts") or stream.get("gates")
    if not experts:
        return ["", "", ""]
    n_used = max(1, experts["hits"] + experts["misses"] + experts["right_guesses"])
    return [f"{100 * experts['hits'] / n_used:.0f} %", f"{100 * experts['right_guesses'] / n_used:.0f} %", f"{100 * experts['wrong_guesses'] / n_used:.0f} %"]


def found_neurons(rounds):
    """How many of the neurons that tokens needed were in memory, and how much was read for a token."""
    stream = (rounds[0].get("stream") or {}) if rounds else {}
    neurons = stream.get("neurons") or {}
    n_used = neurons.get("hits", 0) + neurons.get("misses", 0)
    n_bytes = sum((stream.get(key) or {}).get("read_bytes", 0) for key in ("neurons", "experts", "gates")) + stream.get("read_bytes", 0)
    n_tokens = rounds[0]["decode"]["tokens"] + rounds[0]["prefill"]["tokens"] if stream else 1
    return [f"{100 * neurons['hits'] / n_used:.0f} %" if n_used else "", f"{n_bytes / 1e6 / n_tokens:,.0f} MB" if stream else ""]


def sparse_table(options, kept):
    """Rounds in alternation: medians of tokens a second."""
    results = {(int(megabytes), way): [] for megabytes in options.budgets.split(",") for way in SPARSE_WAYS}
    kept.fill(results, options.rounds, lambda megabytes, way: one_run(options, way, megabytes), lambda key: key_of(options, *key))
    rows = []
    for (megabytes, way), rounds in results.items():
        good = [run for run in rounds if "tokens_per_s" in run]
        if not good:
            problem = rounds[0].get("problem", "").removeprefix("troika: ").split(", ")[0] if rounds else ""
            rows.append([f"{megabytes:,} MB", SPARSE_WAYS[way][0], problem, "", "", "", ""])
            continue
        rows.append([f"{megabytes:,} MB", SPARSE_WAYS[way][0], f"{statistics.median(run['tokens_per_s'] for run in good):.2f}", found(good)[0],
                     *found_neurons(good), f"{max(run['peak_mb'] for run in good):,.0f} MB"])
    text = table(["all memory", "way", "tokens/s", "experts or gates in memory", "neurons in memory", "read for a token", "at most in the cgroup"], rows)
    PAGE.write_text(replace(PAGE.read_text("utf-8"), "sparse experts here", text), "utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--program", default=ROOT / "build" / "release" / "troika")
    parser.add_argument("--ways", default="map,in-order,by-route,guessed")
    parser.add_argument("--budgets", default="4000,2500")
    parser.add_argument("--rounds", default=1, type=int)
    parser.add_argument("--steps", default=24, type=int)
    parser.add_argument("--few-steps", default=6, type=int)
    parser.add_argument("--prompts", action="store_true", help="write the table of prompts")
    parser.add_argument("--sparse", action="store_true", help="write the table of a sparse mixture")
    parser.add_argument("--prompt-budget", default=4000, type=int)
    parser.add_argument("--limit-s", default=120, type=int)
    parser.add_argument("--kept", default=ROOT / "build" / "experts.json", type=pathlib.Path)
    parser.add_argument("--only-kept", action="store_true", help="measure nothing, write what there is")
    options = parser.parse_args()
    kept = Kept(options.kept, not options.only_kept)
    if options.prompts:
        prompt_table(options, kept)
        return
    if options.sparse:
        sparse_table(options, kept)
        return
    results = {(int(megabytes), way): [] for megabytes in options.budgets.split(",") for way in options.ways.split(",")}
    kept.fill(results, options.rounds, lambda megabytes, way: one_run(options, way, megabytes), lambda key: key_of(options, *key))
    rows = []
    for (megabytes, way), rounds in results.items():
        speeds = [run["tokens_per_s"] for run in rounds if "tokens_per_s" in run]
        problem = rounds[0].get("problem", "").split(".")[0] if rounds else ""
        peak = f"{max(run['peak_mb'] for run in rounds if 'peak_mb' in run):,.0f} MB" if speeds else ""
        if rounds:
            rows.append([f"{megabytes:,} MB", WAYS[way][0], f"{statistics.median(speeds):.2f}" if speeds else problem, *found(rounds), peak])
    text = table(["all memory", "way", "tokens/s", "in memory", "guessed", "guessed for nothing", "at most in the cgroup"], rows)
    PAGE.write_text(replace(PAGE.read_text("utf-8"), "experts here", text), "utf-8")


if __name__ == "__main__":
    main()
