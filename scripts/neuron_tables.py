#!/usr/bin/env python3
"""Writes into docs/powerinfer-2.md, and draws as docs/neuron-budgets.svg, how fast planted models run with less memory than they need.

    python3 scripts/neuron_tables.py OVERLAP=MODEL... [--program build/release/troika] [--ways mmap,neurons] [--budgets 50:3080,25:2390]
        [--rounds 1] [--steps 16] [--kept build/neurons.json] [--machine "AMD EPYC, 2 cores"] [--table "neuron predictor here"]
    python3 scripts/neuron_tables.py --redraw --machine "AMD EPYC, 2 cores"

Each MODEL comes from `troika synth --like bamboo-7b --type q4_0 --plant-sparsity 15% --overlap OVERLAP`, counted by `troika neurons MODEL
--predictor RANK`. A budget is the share of the FFN that it means, in percent, and the megabytes that all of the process may take. Each run is in a
cgroup (version 1) of its own, of that size for maps, and that size and 64 MB for the others, with its files not in the page cache; the rounds of all
ways alternate. Needs root, and a machine that does nothing else. The picture is of the first table; --table writes another one alone.
"""
import argparse
import pathlib
import statistics

from limited_runs import bundle_files, limited_run
from line_chart import line_chart
from tables import ROOT, Kept, between, processor, replace, table

PAGE = ROOT / "docs" / "powerinfer-2.md"
TABLE = "neuron budgets here"
PICTURE = ROOT / "docs" / "neuron-budgets.svg"
COMMON = ["-p", "x", "--temp", "1", "--seed", "7", "--ignore-end", "--draft", "none", "--no-plan", "--context", "512", "--json"]
# What each way is called, and its options; {} is the budget.
WAYS = {
    "mmap": ("the file mapped, by output", ["--load", "map"]),
    "blocks": ("blocks of weights take turns", ["--memory", "{}000000"]),
    "matrix": ("neurons, LRU, by matrix", ["--ffn", "by-neuron", "--memory", "{}000000", "--neuron-pins", "0", "--neuron-lru", "--neuron-pipeline", "matrix"]),
    "lru": ("neurons, LRU, by cluster", ["--ffn", "by-neuron", "--memory", "{}000000", "--neuron-pins", "0", "--neuron-lru"]),
    "steps": ("neurons, last steps kept", ["--ffn", "by-neuron", "--memory", "{}000000", "--neuron-pins", "0"]),
    "steps-matrix": ("neurons, last steps kept, by matrix",
                     ["--ffn", "by-neuron", "--memory", "{}000000", "--neuron-pins", "0", "--neuron-pipeline", "matrix"]),
    "neurons": ("neurons, half of the places pinned", ["--ffn", "by-neuron", "--memory", "{}000000", "--neuron-pins", "50"]),
    "pins": ("neurons, all places pinned", ["--ffn", "by-neuron", "--memory", "{}000000", "--neuron-pins", "100"]),
    "predictor": ("a predictor, gates in memory", ["--ffn", "by-neuron", "--memory", "{}000000", "--neuron-predictor",
                  "--neuron-gates", "memory"]),
    "bundles": ("a predictor, gates in bundles",
                ["--ffn", "by-neuron", "--memory", "{}000000", "--neuron-predictor", "--neuron-gates", "bundles"]),
}


def n_steps(options, way):
    return options.map_steps if way == "mmap" else options.steps


def key_of(options, model, overlap, megabytes, way):
    """By what a result is kept: all that another call may give and that changes it."""
    return f"{pathlib.Path(model).stem} {overlap} {megabytes} MB {way} {n_steps(options, way)} steps"


def one_run(options, model, way, megabytes):
    """Tokens a second and what was read; none where the program fails, with its words."""
    words = [word.format(megabytes) for word in WAYS[way][1]]
    command = [str(options.program), "run", str(model), "-n", str(n_steps(options, way)), *COMMON, *words]
    return limited_run(command, [model, *bundle_files()], megabytes + (0 if way == "mmap" else 64), options.limit_s)


def speeds(rounds):
    return [one["tokens_per_s"] for one in rounds if "tokens_per_s" in one]


def cell(rounds, mapped):
    """A speed, and how many times that of the map."""
    own, other = speeds(rounds), speeds(mapped)
    if not own:
        return rounds[0]["problem"].split(".")[0] if rounds else ""
    text = f"{statistics.median(own):.2f}"
    return text + (f" ({statistics.median(own) / statistics.median(other):.1f} ×)" if other and rounds is not mapped else "")


def hits(rounds):
    neurons = (rounds[0].get("stream") or {}).get("neurons") if rounds else None
    if not neurons:
        return ""
    return f"{100 * neurons['hits'] / max(1, neurons['hits'] + neurons['misses']):.0f} %"


def picture(results, budgets, overlaps, ways, machine):
    """Speed over budget, a line for each overlap of the fastest way, and the map's."""
    lines = {}
    for overlap in overlaps:
        points = []
        for share, megabytes in budgets:
            best = max((statistics.median(speeds(results[overlap, megabytes, way])) for way in ways
                        if way != "mmap" and speeds(results[overlap, megabytes, way])), default=None)
            if best is not None:
                points.append((share, best))
        lines[f"overlap {overlap}"] = points
    lines["file mapped"] = [(share, statistics.median(speeds(results[overlaps[0], megabytes, "mmap"]))) for share, megabytes in budgets
                            if "mmap" in ways and speeds(results[overlaps[0], megabytes, "mmap"])]
    return line_chart("How fast bamboo-7b answers when a part of its weights is in memory",
                      [f"{machine}; the rest is on its disk, not in the page cache. Weights are invented: 15 % of neurons fire.",
                       "Overlap: the share of them that the next token needs too; each point is the fastest way of the table.",
                       "File mapped: the system reads pages of the file when they are touched."],
                      "share of the feed-forward weights in memory, %", "tokens/s", lines,
                      x_ticks=[0, *sorted(share for share, _ in budgets)], x_unit=" %")


def on_page(page):
    """What the table says: results as measuring gives them, budgets, overlaps and ways."""
    begin, end = between(page, TABLE)
    head, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page[begin:end].splitlines() if not line.startswith("|---")]
    overlaps = [cell.removeprefix("overlap ") for cell in head[3:]]
    names = {name: way for way, (name, _) in WAYS.items()}
    found = {(overlap, int(row[2].split()[0]), names[row[0]]): [{"tokens_per_s": float(cell.split()[0].rstrip(","))}] if cell else []
             for row in rows for overlap, cell in zip(overlaps, row[3:])}
    budgets = list(dict.fromkeys((float(row[1].split()[0]), int(row[2].split()[0])) for row in rows))
    ways = list(dict.fromkeys(names[row[0]] for row in rows))
    return {(overlap, megabytes, way): found.get((overlap, megabytes, way), [])
            for overlap in overlaps for _, megabytes in budgets for way in ways}, budgets, overlaps, ways


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="OVERLAP=MODEL")
    parser.add_argument("--program", default=ROOT / "build" / "release" / "troika")
    parser.add_argument("--ways", default="mmap,blocks,steps,steps-matrix,lru,pins,bundles")
    parser.add_argument("--budgets", default="50:3080,25:2390,2:1640")
    parser.add_argument("--rounds", default=1, type=int)
    parser.add_argument("--steps", default=24, type=int)
    parser.add_argument("--map-steps", default=6, type=int)
    parser.add_argument("--limit-s", default=120, type=int)
    parser.add_argument("--kept", default=ROOT / "build" / "neurons.json", type=pathlib.Path)
    parser.add_argument("--only-kept", action="store_true", help="measure nothing, write what there is")
    parser.add_argument("--table", default=TABLE, help="the marks on the page between which it goes; give it a --kept of its own")
    parser.add_argument("--machine", default=processor(), help="what the picture calls the machine")
    parser.add_argument("--redraw", action="store_true", help="measure nothing, draw the table of the page")
    options = parser.parse_args()
    if options.redraw:
        PICTURE.write_text(picture(*on_page(PAGE.read_text("utf-8")), options.machine), "utf-8")
        return
    if not options.models:
        parser.error("give an OVERLAP=MODEL, or --redraw")
    if f"<!-- table {options.table} -->" not in PAGE.read_text("utf-8"):
        parser.error(f"{PAGE} has no table of this name")
    models = dict(one.split("=", 1) for one in options.models)
    budgets = [(float(one.split(":")[0]), int(one.split(":")[1])) for one in options.budgets.split(",")]
    ways = options.ways.split(",")
    kept = Kept(options.kept, not options.only_kept)
    results = {(overlap, megabytes, way): [] for overlap in models for _, megabytes in budgets for way in ways}
    kept.fill(results, options.rounds, lambda overlap, megabytes, way: one_run(options, models[overlap], way, megabytes),
              lambda key: key_of(options, models[key[0]], *key))
    rows = []
    for way in ways:
        for share, megabytes in budgets:
            cells = []
            for overlap in models:
                rounds = results[overlap, megabytes, way]
                found = hits(rounds)
                cells.append(cell(rounds, results.get((overlap, megabytes, "mmap"), [])) + (f", {found} found" if found else ""))
            if any(cells):
                rows.append([WAYS[way][0], f"{share:g} %", f"{megabytes} MB", *cells])
    text = table(["way", "of the FFN", "all memory", *[f"overlap {overlap}" for overlap in models]], rows)
    PAGE.write_text(replace(PAGE.read_text("utf-8"), options.table, text), "utf-8")
    if options.table != TABLE:
        return
    # The picture shows the table, as rounded there.
    PICTURE.write_text(picture(*on_page(PAGE.read_text("utf-8")), options.machine), "utf-8")


if __name__ == "__main__":
    main()
