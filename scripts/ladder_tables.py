#!/usr/bin/env python3
"""Writes into docs/powerinfer-2.md what each step of PowerInfer-2's ablation gains on planted models, and how far its planner's forecasts are off.

    python3 scripts/ladder_tables.py OVERLAP=MODEL... [--program build/release/troika] [--budget 3080] [--rounds 2] [--steps 24] [--kept build/ladder.json] [--forecasts]

With --forecasts only those ways are measured of which the planner has a forecast, and only their table is written.

Each MODEL comes from `troika synth --like bamboo-7b --type q4_0 --plant-sparsity 15% --overlap OVERLAP`, counted by `troika neurons MODEL
--predictor RANK`. A budget is the megabytes that all of the process may take. Each run is in a cgroup of its own, of that size for the map, and of that
size and 64 MB for the others, with its files not in the page cache; the rounds of all ways alternate. Needs root, and a machine that does nothing else.
"""
import argparse
import json
import os
import pathlib
import statistics
import tempfile

from limited_runs import bundle_files, limited_run
from tables import ROOT, Kept, replace, run, table

PAGE = ROOT / "docs" / "powerinfer-2.md"
COMMON = ["-p", "x", "--temp", "1", "--seed", "7", "--ignore-end", "--draft", "none", "--no-plan", "--context", "512", "--json"]
NEURONS = ["--ffn", "by-neuron", "--memory", "{}000000"]
# What each way is called, its options ({} is the budget), and the way that it is compared with.
LADDER = {
    "map": ("the file mapped, by output", ["--load", "map"], None),
    "bundle": ("`bundle`", [*NEURONS, "--neurons", "bundle"], "map"),
    "cache": ("`cache`", [*NEURONS, "--neurons", "cache"], "bundle"),
    "pipeline": ("`pipeline`", [*NEURONS, "--neurons", "pipeline"], "cache"),
    "powerinfer-2": ("`powerinfer-2`, a predictor, gates in bundles",
                     [*NEURONS, "--neurons", "powerinfer-2", "--neuron-predictor", "--neuron-gates", "bundles"], "pipeline"),
    "llmflash": ("`llmflash`", [*NEURONS, "--neurons", "llmflash"], None),
    "blocks": ("blocks take turns, by output", ["--memory", "{}000000"], None),
    "steps": ("no stage: last steps kept", NEURONS, None),
    "ahead": ("the same, `--neuron-ahead`", [*NEURONS, "--neuron-ahead"], "steps"),
    "steps-predictor": ("no stage, a predictor, gates in bundles", [*NEURONS, "--neuron-predictor", "--neuron-gates", "bundles"], "powerinfer-2"),
    "pins": ("no stage, all places pinned", [*NEURONS, "--neuron-pins", "100"], None),
    "predictor": ("a predictor, gates in memory", [*NEURONS, "--neuron-predictor", "--neuron-gates", "memory"], None),
}
# Which way the planner means, by words of the name that it gives to it.
FORECASTS = {"gates in bundles": "steps-predictor", "predictor, gates in memory": "predictor", "100 % pinned": "pins", "last steps kept": "steps",
             "by-output": "blocks"}


def n_steps(options, way):
    return options.few_steps if way in ("map", "bundle", "blocks") else options.steps


def key_of(options, model, overlap, way):
    """By what a result is kept: all that another call may give and that changes it."""
    return f"{pathlib.Path(model).stem} {overlap} {options.budget} MB {way} {n_steps(options, way)} steps"


def one_run(options, model, way):
    """What a run came to; where the program fails, its words."""
    words = [word.format(options.budget) for word in LADDER[way][1]]
    command = [str(options.program), "run", str(model), "-n", str(n_steps(options, way)), *COMMON, *words]
    return limited_run(command, [model, *bundle_files()], options.budget + (0 if way == "map" else 64), options.limit_s)


def forecasts(options, model):
    """The planner's alternatives by way: how long a token takes, and which share of the neurons is found."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "plan.json"
        run(options.program, "plan", model, "--memory", f"{options.budget}000000", "--context", "512", "--choose-neurons", "-o", path)
        told = json.loads(path.read_text("utf-8"))["streamed_neurons"]["alternatives"]
    found = {}
    for one in told:
        way = next((way for words, way in FORECASTS.items() if words in one["name"]), None)
        if way and way not in found and one["forecast"]["ms"] > 0:  # others are not priced
            found[way] = {"ms": one["forecast"]["ms"], "hit_share": one["forecast"]["hit_share"]}
    return found


def measured(rounds):
    return [one for one in rounds if "decode" in one]


def median(rounds, value):
    values = [value(one) for one in measured(rounds)]
    return statistics.median(values) if values else None


def waiting(one):
    """Which part of the time the workers waited for neurons or blocks, in percent."""
    stream = one["stream"] or {}
    neurons = stream.get("neurons")
    seconds = one["prefill"]["seconds"] + one["decode"]["seconds"]
    waited = (neurons["wait_s"] / len(os.sched_getaffinity(0)) if neurons else 0.0) + stream.get("wait_s", 0.0)
    return 100 * waited / seconds


def hits(one):
    neurons = (one["stream"] or {}).get("neurons")
    return neurons["hits"] / max(1, neurons["hits"] + neurons["misses"]) if neurons else None


def speed(one):
    return one["tokens_per_s"]


def ladder_rows(results, overlap):
    rows = []
    for way, (name, _, before) in LADDER.items():
        rounds = results[overlap, way]
        if not measured(rounds):
            rows.append([overlap, name, rounds[0]["problem"].split(".")[0] if rounds else "", *[""] * 6])
            continue
        own, other = median(rounds, speed), median(results[overlap, before], speed) if before else None
        share = median(rounds, hits) if hits(measured(rounds)[0]) is not None else None
        waits = median(rounds, waiting)
        percentiles = [f"{median(rounds, lambda one, p=p: one['decode']['step_ms'][p]):.0f}" for p in ("p50", "p90", "p99")]
        rows.append([overlap, name, f"{own:.2f}", f"{own / other:.2f} ×" if other else "", f"{100 - waits:.0f} / {waits:.0f}" if way != "map" else "", *percentiles,
                     f"{100 * share:.0f} %" if share is not None else ""])
    return rows


def forecast_rows(results, told, overlap):
    rows = []
    for way, forecast in told.items():
        rounds = results[overlap, way]
        if not measured(rounds):
            continue
        ms = 1000 / median(rounds, speed)
        share = median(rounds, hits) if hits(measured(rounds)[0]) is not None else None
        rows.append([overlap, LADDER[way][0], f"{forecast['ms']:.0f}", f"{ms:.0f}", f"{100 * (forecast['ms'] / ms - 1):+.0f} %",
                     f"{100 * forecast['hit_share']:.0f} %" if share is not None else "", f"{100 * share:.0f} %" if share is not None else ""])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="OVERLAP=MODEL")
    parser.add_argument("--program", default=ROOT / "build" / "release" / "troika")
    parser.add_argument("--budget", default=3080, type=int)
    parser.add_argument("--rounds", default=2, type=int)
    parser.add_argument("--steps", default=24, type=int)
    parser.add_argument("--few-steps", default=8, type=int)
    parser.add_argument("--limit-s", default=120, type=int)
    parser.add_argument("--kept", default=ROOT / "build" / "ladder.json", type=pathlib.Path)
    parser.add_argument("--forecasts", action="store_true", help="measure and write forecasts alone")
    parser.add_argument("--only-kept", action="store_true", help="measure nothing, write what there is")
    options = parser.parse_args()
    models = dict(one.split("=", 1) for one in options.models)
    kept = Kept(options.kept, not options.only_kept)
    told = {overlap: kept.get(f"{pathlib.Path(model).stem} {overlap} {options.budget} MB forecasts", lambda model=model: forecasts(options, model)) or {}
            for overlap, model in models.items()}
    results = {(overlap, way): [] for overlap in models for way in (FORECASTS.values() if options.forecasts else LADDER)}
    kept.fill(results, options.rounds, lambda overlap, way: one_run(options, models[overlap], way),
              lambda key: key_of(options, models[key[0]], *key))
    page = PAGE.read_text("utf-8")
    if not options.forecasts:
        rows = [row for overlap in models for row in ladder_rows(results, overlap)]
        page = replace(page, "neuron ladder here", table(["overlap", "way", "tokens/s", "against the stage before", "computing / waiting, %", "P50, ms",
                                                          "P90, ms", "P99, ms", "found"], rows))
    rows = [row for overlap in models for row in forecast_rows(results, told[overlap], overlap)]
    PAGE.write_text(replace(page, "neuron forecasts here", table(["overlap", "way", "forecast, ms/token", "measured", "off by", "found, forecast",
                                                                  "measured"], rows)), "utf-8")


if __name__ == "__main__":
    main()
