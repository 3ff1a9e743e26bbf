"""Writes docs/models.md: what is measured of the trained models, by the program where it can.

    python3 models/train/table.py DATA PREPARED [--program build/release/troika] [--models models]
        [--out docs/models.md]

DATA is the folder of texts (for stories260K beside ours, if it is there), PREPARED what prepare.py made of
it, with the held-out texts and tasks. Texts, tasks and planting are measured by `troika`, activity and
attention by PyTorch on the weights of the same files. Takes some minutes.
"""

import argparse
import json
import math
import subprocess
import tempfile
import textwrap
from pathlib import Path

import evaluate
import measure
import outliers
import torch
from export import load_gguf

ROOT = Path(__file__).resolve().parent.parent.parent
KINDS = ("silu", "relu")
PLANT = ("--channels", "0.3%", "--scale", "64")
WINDOW, N_WINDOWS = 1024, 4  # of the first held-out book, for activations
N_PLANTED_STORIES = 50

INTRODUCTION = """\
# The trained models, measured

This page is written by one command and not by hand:

```text
python3 models/train/table.py DATA OUT/prepared
```

`DATA` is the folder of texts and `OUT/prepared` what the [recipe](../models/train/README.md) made of it. Texts, tasks and
planting are measured by the program `troika` with its default options: weights in Q8_0, activations rounded to 8 bits. Activity
and attention are measured by PyTorch on the weights of the same files. What the models are and how they were trained stands in
[models](../models/README.md) and on their cards there.

They are small, so the limits are plain: a few million parameters, some millions of tokens, generated tasks with
invented names, one language, contexts of 2048 tokens. A figure here says how a technique works on these models;
whether it helps a model of a billion parameters needs one to be measured.
"""

PLANTED = """\
## Planted outliers

The llm.npu paper describes outliers of activations: few channels, mostly the same ones, larger in the first and last layers.
Models of this size hardly have them, so that methods that handle outliers have little to do. `troika synth --plant-outliers`
makes some: it scales chosen channels of the activations up by powers of two, and the weights that read them down; of the hidden
channels of the feed-forward part, whose magnitudes have a long tail of their own, those that are largest over another book. In
float nothing changes, to the last bit. Where hardly any neuron fires, as in one layer of troika-relu, no neuron can stand out
in most tokens.

**Planted models show that a mechanism works and is exact. They support no claim about which method is better on
real models, nor about how many layers may go without it**: where the outliers lie and how large they are was
chosen by us. Also, the weights that read a planted channel are small, and 8-bit weights round them more coarsely
than those of a [real model](real-model.md).

Perplexity of the first {n} held-out stories, before and after planting (0.3 % of the channels, 2.5 % of the
hidden ones, scale 64). *Float* is float activations and F32 keys and values; *8 bits* is the planted file in Q8_0
with activations rounded to 8 bits in blocks of 32, as the program does by default: a planted channel harms the
other 31 of its block only.

{perplexity}

With one static scale for each tensor, as the paper's matrix unit wants it, it harms all. Here the scale is the largest
magnitude over a calibration text, and the weights are in float. The text is the first {n_windows} windows of {window} tokens of a held-out
book (in PyTorch). No method against outliers is at work.

{per_tensor}

By layer, over {tokens} tokens of a held-out book: the largest magnitude over the scale s, which 99 % of the
magnitudes stay below; the share of elements beyond 2 s, here called outliers; and how many of the outliers lie in
the worst 3 % of the channels. Before → after planting.

{layers}
"""

ABOUT_TEXTS = """\
Perplexity per token · **bits per character**. Models with different vocabularies can be compared by the second
only. Books go in windows of 2048 tokens, each begun afresh; stories, numbers 1 to 200 of the thousand, are
documents of their own. """
ABOUT_STORIES260K = """\
stories260K (0.3 million parameters, windows of 512 tokens, float weights) stands beside them: it was trained on
TinyStories alone, which is some hundred times our text and may hold these 200 stories too, and on no book. """
ABOUT_TASKS = """\
Greedy answers that are right to the last character, from the prompt as it stands (no chat template). Names and
values of these tasks do not occur in the training."""
ABOUT_LAYERS = f"""\
Over a held-out book. *Attention in the best fifth*: what share of the attention the best 20 % of the positions of
each head hold, for the later half of the positions of a window of {WINDOW}. *Active neurons*: those whose gate is
above zero."""


class Program:
    def __init__(self, path):
        self.path = path

    def __call__(self, *words):
        done = subprocess.run([str(w) for w in (self.path, *words)], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
        return json.loads(done.stdout)


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(str(x) for x in line) + " |" for line in lines)


def percent(x, digits=0):
    return "–" if x is None else f"{100 * x:.{digits}f} %"


def title(name):
    return name.removesuffix(".txt").replace("-", " ")


def text_table(troika, models, held, stories260k):
    files = [*models.values(), *([stories260k] if stories260k else [])]
    heads = ["text", "characters", *(f.stem.removesuffix("-q8_0") for f in files)]
    rows = []
    texts = [(title(p.name), p) for p in sorted((held / "books").glob("*.txt"))]
    for name, path in [*texts, ("stories", held / "stories.json")]:
        row = []
        for file in files:
            # stories260K was trained on 512 tokens, whatever its file says.
            more = ["-c", "512"] if file == stories260k else []
            f = troika("eval", file, "--no-plan", "--perplexity", path, "--json", *more)
            row.append(f"{f['perplexity']:.2f} · **{f['bits_per_char']:.3f}**")
        whole = path.read_text("utf-8")
        rows.append([name, len(whole) if path.suffix == ".txt" else sum(map(len, json.loads(whole))), *row])
    return table(heads, rows)


def task_table(troika, models, held):
    scores = {k: troika("eval", f, "--no-plan", "--tasks", held / "tasks.jsonl", "--json") for k, f in models.items()}
    first = next(iter(scores.values()))
    rows = [["all", first["n"], *(percent(s["accuracy"]) for s in scores.values())]]
    for kind, of_kind in first["kinds"].items():
        rows.append([kind, of_kind["n"], *(percent(s["kinds"][kind]["accuracy"]) for s in scores.values())])
    return table(["task", "n", *(f"troika-{k}" for k in scores)], rows)


def parameter_table(troika, models, manifest):
    rows = []
    for kind, file in models.items():
        model, _ = load_gguf(file)
        c = model.config
        rows.append([f"[troika-{kind}](../models/troika-{kind}.md)" if (ROOT / f"models/troika-{kind}.md").exists()
                     else f"troika-{kind}", f"{model.n_parameters() / 1e6:.2f} M",
                     f"{troika('inspect', file, '--json')['bytes'] / 1e6:.1f} MB",
                     f"{c.layers} × {c.width}, {c.heads} heads over {c.kv_heads}, feed-forward {c.ffn}, "
                     f"vocabulary {c.vocab}, context {c.context}"])  # fmt: skip
    data = table(["data", "documents", "tokens"], [
        ["public-domain books", manifest["books"]["files"], f"{manifest['books']['tokens'] / 1e6:.1f} M"],
        ["TinyStories + stories told by rule",
         f"{manifest['stories']['texts']} + {manifest['stories'].get('told', 0)}",
         f"{manifest['stories']['tokens'] / 1e6:.1f} M"],
        ["generated tasks and conversations", manifest["tasks"]["documents"],
         f"{manifest['tasks']['tokens'] / 1e6:.1f} M"],
    ])  # fmt: skip
    return table(["model", "parameters", "file", "shape"], rows) + "\n\n" + data


def windows_of(model, tokenizer, held, book=0):
    book = sorted((held / "books").glob("*.txt"))[book].read_text("utf-8")
    size = min(WINDOW, model.config.context)
    windows = measure.windows_of(tokenizer.encode(book), size)
    return torch.tensor([w for w in windows if len(w) == size][:N_WINDOWS])


def layer_table(models, held):
    rows = {}
    heads = ["layer"]
    for kind, file in models.items():
        model, tokenizer = load_gguf(file)
        tokens = windows_of(model, tokenizer, held)
        columns = {f"troika-{kind}: attention in the best fifth": evaluate.attention_mass(model, tokens[:2])}
        if model.config.activation == "relu":
            columns[f"troika-{kind}: active neurons"] = evaluate.activity(model, tokens)
        for head, values in columns.items():
            heads.append(head)
            for i, x in enumerate([*values, sum(values) / len(values)]):
                rows.setdefault("all" if i == len(values) else i, {})[head] = percent(x, 1)
    return table(heads, [[i, *(row.get(h, "–") for h in heads[1:])] for i, row in rows.items()])


def arrow(before, after, form):
    show = lambda x: "–" if x is None else form(x)
    return f"{show(before)} → {show(after)}"


def outlier_table(before, after):
    rows = []
    for i, (a, b) in enumerate(zip(before, after)):
        for name in outliers.INPUTS:
            x, y = a[name], b[name]
            rows.append([i, name, arrow(x["ratio"], y["ratio"], lambda v: f"{v:.1f}"),
                         arrow(x["share"], y["share"], lambda v: percent(v, 2)),
                         arrow(x["in_few"], y["in_few"], percent)])  # fmt: skip
    return table(["layer", "input of", "largest / s", "outliers", "of them in 3 % of the channels"], rows)


def planted(troika, models, held):
    perplexities, per_tensor, parts, n_tokens = [], [], [], 0
    other_book = sorted((held / "books").iterdir())[1]  # the first one is measured on
    with tempfile.TemporaryDirectory() as folder:
        for kind, file in models.items():
            after, in_8_bits = Path(folder) / f"{kind}.gguf", Path(folder) / f"{kind}-q8_0.gguf"
            troika("synth", "--plant-outliers", file, after, *PLANT, "--text", other_book, "--json")
            troika("quantize", after, in_8_bits, "--type", "q8_0", "--json")

            def perplexity(path, *more):
                f = troika("eval", path, "--no-plan", "--perplexity", held / "stories.json", "--first", N_PLANTED_STORIES,
                           "--json", *more)  # fmt: skip
                return f"{f['perplexity']:.4f}"

            in_float = ("--activations", "f32", "--kv", "f32")
            perplexities.append([f"troika-{kind}", perplexity(file, *in_float), perplexity(after, *in_float),
                                 perplexity(file), perplexity(in_8_bits)])  # fmt: skip
            model, tokenizer = load_gguf(file)
            tokens = windows_of(model, tokenizer, held)
            n_tokens = tokens.numel()
            same = load_gguf(after)[0]
            parts.append(f"### troika-{kind}\n\n" + outlier_table(outliers.by_layer(model, tokens),
                                                                outliers.by_layer(same, tokens)))  # fmt: skip
            calibration = windows_of(model, tokenizer, held, book=-1)[:1]
            losses = [measure.text_loss(model, tokens.tolist()),
                      outliers.per_tensor_loss(model, calibration, tokens.tolist()),
                      outliers.per_tensor_loss(same, calibration, tokens.tolist())]  # fmt: skip
            per_tensor.append([f"troika-{kind}", *(f"{math.exp(nats / n):.2f}" for nats, n in losses)])
    heads = ["model", "float, before", "float, after", "8 bits, before", "8 bits, after"]
    of_tensor = table(["model", "float", "one scale per tensor, before", "after"], per_tensor)
    return PLANTED.format(n=N_PLANTED_STORIES, tokens=n_tokens, perplexity=table(heads, perplexities),
                          per_tensor=of_tensor, n_windows=N_WINDOWS, window=WINDOW,
                          layers="\n\n".join(parts))  # fmt: skip


def page(troika, data, prepared, models):
    held = prepared / "held_out"
    stories260k = data / "models/stories260K.gguf"
    beside = stories260k if stories260k.exists() else None
    manifest = json.loads((prepared / "manifest.json").read_text("utf-8"))
    about_texts = ABOUT_TEXTS + (ABOUT_STORIES260K if beside else "")
    parts = [
        INTRODUCTION,
        "## The models and their data", parameter_table(troika, models, manifest),
        "## Held-out texts", textwrap.fill(about_texts, 112), text_table(troika, models, held, beside),
        "## Held-out tasks", textwrap.fill(ABOUT_TASKS, 112), task_table(troika, models, held),
        "## By layer", textwrap.fill(ABOUT_LAYERS, 112), layer_table(models, held),
        planted(troika, models, held),
    ]  # fmt: skip
    return "\n\n".join(p.strip("\n") for p in parts) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data", type=Path)
    p.add_argument("prepared", type=Path)
    p.add_argument("--program", type=Path, default=ROOT / "build/release/troika")
    p.add_argument("--models", type=Path, default=ROOT / "models")
    p.add_argument("--out", type=Path, default=ROOT / "docs/models.md")
    a = p.parse_args()
    models = {k: a.models / f"troika-{k}-q8_0.gguf" for k in KINDS}
    models = {k: f for k, f in models.items() if f.exists()}
    if not models:
        p.error(f"{a.models} holds no troika-*-q8_0.gguf")
    a.out.write_text(page(Program(a.program), a.data, a.prepared, models), "utf-8")
    print(f"{a.out} is written", flush=True)


if __name__ == "__main__":
    main()
