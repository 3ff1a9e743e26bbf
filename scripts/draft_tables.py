#!/usr/bin/env python3
"""Measures drafts on context-augmented tasks and writes the tables into docs/drafts.md, between its marks.

    python3 scripts/draft_tables.py [--data FOLDER] [--each 40] [--model FILE] [--program build/release/troika]

The tasks come from scripts/cag_tasks.py. Takes some minutes; times are those of a machine that does nothing else.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tables import ROOT, replace, run, table

PAGE = ROOT / "docs/drafts.md"
COVERAGES = (0, 10, 25, 50, 100)
# The paper's Table 4: what calibration and reuse together multiply, from the smallest to the largest.
PAPER = {"lookup": (1.05, 1.25), "sam": (1.06, 1.24)}
KINDS = ("summary", "qa", "ui", "reply", "all")


def evaluate(program, model, tasks, *options):
    return json.loads(run(program, "eval", model, "--no-plan", "--cag", tasks, "--json", *options))


def shares(score):
    found = [f"{s['name']} {100 * s['share']:.0f} %" for s in score["sources"] if s["accepted"]]
    return ", ".join(found) or "–"


def section(result, curve, command, model):
    by = {(s["draft"], s["kind"]): s for s in result["scores"]}
    drafts = list(dict.fromkeys(s["draft"] for s in result["scores"]))
    kinds = [k for k in KINDS if (drafts[0], k) in by]
    everything = [by[d, "all"] for d in drafts]
    tokens = [[f"`{d}`", *(f"{by[d, k]['tokens_per_verification']:.2f}" for k in kinds)] for d in drafts]
    costs = [
        [f"`{s['draft']}`", f"{s['mean_draft']:.1f}", f"{s['ms_per_token']:.3f}", f"{s['total_ms_per_token']:.3f}",
         f"{s['draft_ms_per_step']:.3f}", shares(s)]
        for s in everything
    ]  # fmt: skip
    gains = []
    for base, (low, high) in PAPER.items():
        ours = f"{base}+reuse+calibrated"
        factors = [by[ours, k]["tokens_per_verification"] / by[base, k]["tokens_per_verification"] for k in kinds]
        gains.append([f"`{base}`", *(f"×{f:.2f}" for f in factors), f"×{low} to ×{high}"])
    covered = [s for s in curve["scores"] if s["kind"] == "all" and s["draft"] != "none"]
    rows = [
        [s["draft"], f"{s['tokens_per_verification']:.3f}", f"{s['calibration_ms_per_prompt_token']:.4f}",
         f"{100 * s['calibration_ms_per_prompt_token'] / s['prefill_ms_per_prompt_token']:.0f} %",
         f"{s['total_ms_per_token']:.4f}"]
        for s in covered
    ]  # fmt: skip
    best = min(covered, key=lambda s: s["total_ms_per_token"])
    full = covered[-1]
    cost = full["calibration_ms_per_prompt_token"] / full["prefill_ms_per_prompt_token"]
    n = sum(by["none", k]["tasks"] for k in kinds if k != "all")
    return f"""\
Written by one command, and not by hand:

```text
{command}
```

{n} tasks of four kinds, greedy answers of at most 64 tokens by `{model.name}`. Tokens of a pass (accepted ones and
the model's own) are counted with drafts of {result['width'] - 1} nodes, so they do not depend on the clock; times are taken with as many
nodes as pay. {result['different'] + curve['different']} answers with drafts differ from those without.

Tokens of a pass:

{table(["drafts", *kinds], tokens)}

Over all kinds: nodes of a draft, and ms:

{table(["drafts", "nodes", "a token", "with the prompt", "drafting a step", "accepted from"], costs)}

What calibration and reuse multiply, and what the paper's Table 4 prints:

{table(["over", *kinds, "paper"], gains)}

Calibration over the share of the prompt's positions that it covers (`sam+reuse+calibrated`):

{table(["coverage", "tokens of a pass", "ms a prompt token", "of the prompt's pass", "ms a token with the prompt"], rows)}

The head is {100 * result['head_share']:.0f} % of the operations of a prompt's pass, and covering everything takes {100 * cost:.0f} % of its time: {cost / result['head_share']:.2f}
times its share. Least time in all: {best['draft']}.
"""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=Path, help="real passages and screens too (see scripts/cag_tasks.py)")
    p.add_argument("--each", type=int, default=40)
    p.add_argument("--model", type=Path, default=ROOT / "models/troika-silu-q8_0.gguf")
    p.add_argument("--program", default=str(ROOT / "build/release/troika"))
    p.add_argument("-o", "--output", type=Path, help="the section alone, into this file")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tasks = Path(folder) / "tasks.jsonl"
        data = ["--data", a.data] if a.data else []
        tasks.write_text(run(sys.executable, ROOT / "scripts/cag_tasks.py", "--each", a.each, *data))
        result = evaluate(a.program, a.model, tasks)
        curve = evaluate(a.program, a.model, tasks, "--coverages", ",".join(map(str, COVERAGES)))
    command = "python3 scripts/draft_tables.py" + (" --data DATA" if a.data else "")
    text = section(result, curve, command, a.model)
    if a.output:
        a.output.write_text(text, "utf-8")
        return
    PAGE.write_text(replace(PAGE.read_text("utf-8"), "cag drafts", "\n" + text), "utf-8")


if __name__ == "__main__":
    main()
