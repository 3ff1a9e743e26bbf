#!/usr/bin/env python3
"""Writes docs/int8-prompts.md: what prompts in int8 lose by each method, on the trained models.

    python3 scripts/int8_tables.py CALIBRATION [--held-out TEXT --tasks FILE] [--program build/release/troika]

CALIBRATION is a text that the scales are measured on; the held-out text and the tasks (JSONL for `troika eval
--tasks`) judge them, and give the curve over the outliers that are ignored. Everything is measured by the
program; takes some minutes.
"""

import argparse
import json
import re
import tempfile
import textwrap
from pathlib import Path

from tables import ROOT, run, table

KINDS = ("silu", "relu")
PLANT = ("--channels", "0.3%", "--scale", "64")
FLOAT = ("--activations", "f32", "--kv", "f32", "--context", "512")
RATES = (0, 25, 50, 70, 85, 100)
METHODS = (
    ("group", "scales for groups of 32, weights and activations (as K-Quants)"),
    ("token", "a scale for each token"),
    ("llm.int8", "LLM.int8(): the same, channels from 6 on in float"),
    ("smooth", "SmoothQuant, one scale for each tensor"),
    ("static", "one scale for each tensor, from the largest magnitude"),
    ("shadow", "one scale for each tensor, outliers in float beside (N4)"),
    ("token-shadow", "a scale for each token, outliers in float beside"),
)

INTRODUCTION = """\
# Prompts in int8: what each method loses

This page is written by one command and not by hand:

```text
{command}
```

A prompt in int8 (`--prefill int8`) multiplies whole numbers: weights with a scale for each row, activations with
a scale for each token or one for the whole tensor, and sums over the whole row (N3). A few channels that are far
larger than the others spoil that: the scale follows them, and the rest is rounded to nothing. The methods (`--int8`)
differ in what they do about it:

| `--int8` | |
|---|---|
{methods}

`shadow` and `token-shadow` take out what exceeds a calibrated limit: x = s · c + r, with c = round(x / s) clamped to −127 …
127. The residual r is a short list of channels. It is multiplied in float by the same int8 weights and added. For s · c + r = x
nothing is lost but the rounding of what lies within the limit. The weights of a channel are read from the int8 panels
themselves, so that no second copy stands in memory. LLM.int8() marks a channel for all tokens of a batch where one token
exceeds the threshold; here each token decides for itself, so that the result does not depend on how a prompt is divided.

`troika plan MODEL --calibrate TEXT -o plan.json` runs a text in float, gathers the magnitudes of every product's
input, and tries limits from the 99.99 % quantile down. The largest is taken that loses nothing worth mentioning
(0.05 % of perplexity) against the best. An interrupted calibration goes on where it stopped. It then measures the methods, and
`--prefill auto` becomes int8 where that loses less than 0.5 %; the plan says why. `run`, `eval` and `bench` follow
with `--plan plan.json`, and `--int8 METHOD`, `--int8-weights row|tensor|int4` and `--outlier-prune PERCENT` replace what
it says.

## The limits of what follows

The models have four million parameters. Models of this size hardly have outliers, so `troika synth
--plant-outliers` makes some ({plant}): chosen channels are scaled up, the weights that
read them down, and in float nothing changes. **Planted outliers show that a mechanism works and is exact. They support no claim about which method
is better on real models, nor about how many products may go without it**: where they lie and how strong they are was
chosen by us. They also favour methods that move scales from activations to weights, because that is how they were
made. [A real model](real-model.md) says what these tables cannot. Products of the last 32 tokens or fewer of a window
are computed as decoding is, here in float.
"""


class Judge:
    """Perplexity and task accuracy of one model by each method."""

    def __init__(self, options, model, folder):
        self.options = options
        self.model = model
        self.plan = folder / "plan.json"
        if not self.plan.exists():
            run(options.program, "plan", model, *FLOAT, "--calibrate", options.calibration,
                "--alternatives", "-o", self.plan)
        plan = json.loads(self.plan.read_text())
        self.calibration = plan["int8"]
        reason = plan["prefill_reason"].replace(
            self.calibration["text"], Path(self.calibration["text"]).name)
        self.reason = f"{plan['prefill']} ({reason})"
        self.float = self.measure(*FLOAT, "--prefill", "f32") if options.held_out else None

    def measure(self, *how):
        program, model = self.options.program, self.model
        text = run(program, "eval", model, *how, "--perplexity", self.options.text, "--json")
        tasks = run(program, "eval", model, *how, "--tasks", self.options.some_tasks, "--json")
        return json.loads(text)["perplexity"], json.loads(tasks)["accuracy"]

    def method(self, name, prune=0, weights="row"):
        return self.measure("--plan", self.plan, "--int8", name, "--outlier-prune", prune,
                            "--int8-weights", weights)

    def cell(self, measured):
        perplexity, accuracy = measured
        loss = 100 * (perplexity / self.float[0] - 1)
        shown = f"{loss:+.2f} %" if abs(loss) < 1000 else f"× {perplexity / self.float[0]:.0f}"
        return f"{shown} · {100 * accuracy:.0f} %"


    def calibrated(self, name, prune):
        for loss in self.calibration["losses"]:
            if (loss["method"], loss["outlier_prune"]) == (name, prune):
                return f"{100 * loss['loss']:+.2f} %"
        return "–"


def method_rows(judges):
    rows = [["float"] + [f"{j.float[0]:.2f} · {100 * j.float[1]:.0f} %" for j in judges]]
    for name, _ in METHODS:
        rows.append([f"`{name}`"] + [j.cell(j.method(name)) for j in judges])
        print(f"{name} measured", flush=True)
    for name in ("static", "shadow"):
        rows.append([f"`{name}`, one scale for each weight tensor too"] +
                    [j.cell(j.method(name, weights="tensor")) for j in judges])
    return rows


def prune_rows(judges):
    rows = []
    for rate in RATES:
        for name in ("shadow", "token-shadow"):
            rows.append([f"{rate} %", f"`{name}`"] + [j.cell(j.method(name, rate)) for j in judges])
        print(f"{rate} % measured", flush=True)
    return rows


def shapes_of(program, model):
    """Rows that read each activation, by the name of the first weight: the models are Llama decoders."""
    inspected = json.loads(run(program, "inspect", model, "--json"))
    rows = {t["name"]: t["shape"] for t in inspected["tensors"]}
    shapes = {}
    for name, shape in rows.items():
        block = name.rsplit(".", 2)[0]
        readers = {"attn_q": ("attn_q", "attn_k", "attn_v"), "attn_output": ("attn_output",),
                   "ffn_gate": ("ffn_gate", "ffn_up"), "ffn_down": ("ffn_down",)}
        part = name.rsplit(".", 2)[-2]
        if part in readers and block.startswith("blk."):
            n = sum(rows[f"{block}.{reader}.weight"][1] for reader in readers[part])
            shapes[name] = (shape[0], n)
    return shapes


def memory_row(judge, name):
    shapes = shapes_of(judge.options.program, judge.model)
    inputs = judge.calibration["inputs"]
    full = sum(4 * k * n for k, n in shapes.values())
    hot = sum(4 * len(i["hot_channels"]) * shapes[i["weight"]][1] for i in inputs)
    ever = sum(4 * i["outlier_channels"] * shapes[i["weight"]][1] for i in inputs)
    channels = sum(k for k, _ in shapes.values())
    n_hot = sum(len(i["hot_channels"]) for i in inputs)
    per_token = sum(i["outliers_per_token"] for i in inputs)
    return [name, f"{100 * judge.calibration['quantile']:g} %", f"{per_token:.1f} of {channels}",
            f"{100 * n_hot / channels:.1f} %", f"{full / 1e6:.1f} MB", f"{ever / 1e6:.2f} MB",
            f"{hot / 1e6:.2f} MB", "0"]


def calibration_part(judges, names):
    rows = [["float: perplexity", ""] + [f"{j.calibration['perplexity']:.2f}" for j in judges]]
    for name, _ in METHODS:
        for prune in (0, 85) if "shadow" in name else (100,):
            shown = f"{prune} %" if "shadow" in name else ""
            rows.append([f"`{name}`", shown] + [j.calibrated(name, prune) for j in judges])
    alphas = ", ".join(f"{j.calibration['smooth_alpha']:g} ({n})" for j, n in zip(judges, names))
    return [
        f"## Every method, on the text of the calibration\n\nChange of perplexity against float over "
        f"{judges[0].calibration['tokens']} tokens of `{Path(judges[0].calibration['text']).name}`, the text that "
        "the scales were measured on too, in windows of 512 tokens; weights with a scale for each row. "
        "*Ignored*: the products, the least important by the largest magnitude over the limit, that ignore their "
        "outliers (N6): with `shadow` they clamp to the limit of least mean square error, with `token-shadow` they "
        f"take each token's own scale. The paper's default is 85 %. SmoothQuant's α: {alphas}.\n",
        table(["method", "ignored"] + names, rows),
        "\nDifferences of a tenth of a per cent, of either sign, are chance.",
    ]


def held_out_part(options, judges, names):
    loss = "Change of perplexity against float · tasks right"
    return [
        f"\n## Every method, on a text and tasks it has not seen\n\nThe first {options.characters} characters of "
        f"`{Path(options.held_out).name}` and {options.n_tasks} held-out tasks. {loss}; no outliers ignored "
        "(`--outlier-prune 0`); weights with a scale for each row unless said otherwise. Float: perplexity. With "
        "so many tasks, differences of a few per cent are chance.\n",
        table(["method"] + names, method_rows(judges)),
        "\n## How many products may ignore their outliers\n",
        table(["ignored", "method"] + names[1::2], prune_rows(judges[1::2])),
    ]


def wrapped(text):
    """Paragraphs in lines of 115 characters; tables, headings and code stay as they are."""
    out = []
    for block in re.split(r"(\n{2,}|```.*?```)", text, flags=re.DOTALL):
        out.append(block if block.startswith(("\n\n", "```")) else wrapped_block(block))
    return "".join(out)


def wrapped_block(text):
    paragraphs = []
    for line in text.split("\n"):
        is_own = not line or line.startswith(("|", "#", "- "))
        if is_own or not paragraphs or paragraphs[-1].startswith(("|", "#")) or not paragraphs[-1]:
            paragraphs.append(line)
        else:
            paragraphs[-1] += " " + line.strip()
    return "\n".join(
        p if not p or p.startswith(("|", "#")) else textwrap.fill(
            p, 115, subsequent_indent="  " if p.startswith("- ") else "", break_long_words=False,
            break_on_hyphens=False)
        for p in paragraphs)


def page(options, judges, names):
    command = "python3 scripts/int8_tables.py CALIBRATION"
    if options.held_out:
        command += " --held-out TEXT --tasks FILE"
    parts = [
        INTRODUCTION.format(
            command=command, methods="\n".join(f"| `{name}` | {text} |" for name, text in METHODS),
            plant="0.3 % of the channels, 2.5 % of the hidden ones, scale 64"),
        *calibration_part(judges, names),
        *(held_out_part(options, judges, names) if options.held_out else []),
        "\n## Memory of the weights that outliers meet\n\nThe float rows of outlier channels take memory "
        "where they are kept beside the int8 weights, as on a unit with a memory of its own. The table has those of "
        "all channels, of those that ever had an outlier in the calibration, and of the fewest that had 80 % of "
        "them (*hot*, N5). Here "
        "nothing is kept: the levels are read from the int8 panels. Outliers on a lane of their own "
        "(`--place shadow`) keep the hot channels, a byte for each weight, a quarter of what the table says.\n",
        table(["model", "within the limit", "outliers per token", "hot channels", "all", "ever", "hot", "here"],
              [memory_row(j, n) for j, n in zip(judges, names)]),
        "\n## What `--prefill auto` made of it\n",
        "\n".join(f"- {name}: {judge.reason}" for name, judge in zip(names, judges)),
    ]
    return wrapped("\n".join(parts)) + "\n"


def prepare_held_out(options, folder):
    options.text = folder / "held_out.txt"
    text = Path(options.held_out).read_text(encoding="utf-8")
    options.text.write_text(text[: options.characters], encoding="utf-8")
    options.some_tasks = folder / "tasks.jsonl"
    tasks = Path(options.tasks).read_text(encoding="utf-8").splitlines()[:: options.every]
    options.some_tasks.write_text("\n".join(tasks) + "\n", encoding="utf-8")
    options.n_tasks = len(tasks)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("calibration")
    parser.add_argument("--held-out")
    parser.add_argument("--tasks")
    parser.add_argument("--program", default=ROOT / "build/release/troika")
    parser.add_argument("--models", type=Path, default=ROOT / "models")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/int8-prompts.md")
    parser.add_argument("--characters", type=int, default=20000, help="of HELD_OUT")
    parser.add_argument("--every", type=int, default=7, help="only each so many of TASKS")
    parser.add_argument("--work", type=Path,
                        help="keep models and plans in this folder, and use those that are there")
    options = parser.parse_args()
    if bool(options.held_out) != bool(options.tasks):
        parser.error("--held-out and --tasks go together")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.work or Path(temporary)
        folder.mkdir(exist_ok=True)
        if options.held_out:
            prepare_held_out(options, folder)
        judges, names = [], []
        for kind in KINDS:
            plain = options.models / f"troika-{kind}-q8_0.gguf"
            planted = folder / f"{kind}-planted.gguf"
            if not planted.exists():
                run(options.program, "synth", "--plant-outliers", plain, planted, *PLANT,
                    "--text", options.calibration)
            for name, model in ((kind, plain), (f"{kind}, planted", planted)):
                place = folder / name.replace(", ", "-")
                place.mkdir(exist_ok=True)
                judges.append(Judge(options, model, place))
                names.append(f"troika-{name}")
                print(f"{names[-1]} calibrated", flush=True)
        options.out.write_text(page(options, judges, names), encoding="utf-8")


if __name__ == "__main__":
    main()
