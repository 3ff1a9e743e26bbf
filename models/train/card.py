"""Writes the card of a model from what evaluate.py measured and train.py logged.

    python3 card.py EVALUATED.json PREPARED/manifest.json RUN/log.jsonl OUT.md [--made "how, in words"]
"""

import argparse
import json
from pathlib import Path


def percent(x):
    return f"{100 * x:.0f} %"


def quote(text):
    return "\n".join("> " + line for line in text.strip().split("\n"))


def distant(figures):
    """The lines of what is found far before the end of a text."""
    out = ["", "What is asked at the end of a text of so many tokens and stood anywhere in it:", "",
           "| tokens | sentences hidden in a book | pairs of a list | a passage that comes again, nats per token |", "|---|---|---|---|"]  # fmt: skip
    for key, match in figures.items():
        if key.startswith("match_"):
            size = key.removeprefix("match_")
            nats = figures[f"copy_nats_{size}"]
            out.append(f"| {size} | {percent(match['needles'])} | {percent(match['pairs'])} | {nats:.2f} |")
    return out


def card(figures, manifest, log, made):
    c = figures["config"]
    name = Path(figures["file"]).stem.rsplit("-q8_0", 1)[0].rsplit("-f16", 1)[0]
    last = log[-1]
    out = [f"# {name}", ""]
    told = f" and {manifest['stories']['told']} told by rule" if manifest["stories"].get("told") else ""
    act = "SiLU" if c["activation"] == "silu" else "ReLU"
    out += [
        f"A Llama decoder of {figures['parameters'] / 1e6:.1f} million parameters with a gated {act} feed-forward, "
        "trained by the recipe in [train](train/README.md). It tells little stories, answers "
        "questions about a text that it is given, and picks what to tap on a screen. It knows nothing about the "
        "world, and stories that it does not tell by a plot it was taught lose their thread.", "",
        "| | |", "|---|---|",
        f"| shape | {c['layers']} layers, width {c['width']}, {c['heads']} heads over {c['kv_heads']} key/value heads, "
        f"feed-forward {c['ffn']}, vocabulary {c['vocab']} (byte-level BPE), context {c['context']}, tied embeddings |",
        f"| file | `{figures['file']}`, {figures['bytes'] / 1e6:.1f} MB |",
        f"| training | {last['tokens'] / 1e6:.1f} million tokens in {last['step']} steps{made} |",
        f"| texts | {manifest['books']['files']} public-domain books ({manifest['books']['tokens'] / 1e6:.1f} M tokens); "
        f"{manifest['stories']['texts']} stories of TinyStories (CDLA-Sharing-1.0){told}, as text and as answers in "
        f"conversations ({manifest['stories']['tokens'] / 1e6:.1f} M); {manifest['tasks']['documents']} generated tasks "
        f"({manifest['tasks']['tokens'] / 1e6:.1f} M) |",
        "| licence | the weights: Apache-2.0, like the project; TinyStories asks to be named: it is part of the data |",
        "| chat template | in the file: roles system, user, assistant |", "",
        "## Measured", "",
        "By `evaluate.py` in PyTorch on the weights of this very file, on text and tasks that were held out.", "",
        "| text | tokens | nats per token | bits per character |", "|---|---|---|---|",
    ]  # fmt: skip
    for title, f in [*figures["books"].items(), ("stories 1 to 200 of the thousand", figures["stories"])]:
        out.append(f"| {title.removesuffix('.txt')} | {f['tokens']} | {f['nats_per_token']} | {f['bits_per_character']} |")
    out += ["", "Greedy answers that are right to the last character, by kind of task:", "",
            "| " + " | ".join(figures["tasks"]) + " |", "|" + "---|" * len(figures["tasks"]),
            "| " + " | ".join(percent(x) for x in figures["tasks"].values()) + " |"]  # fmt: skip
    if "distant" in figures:
        out += distant(figures["distant"])
    out += ["", "By layer, on the first held-out book:", "",
            "| layer | gates above zero | attention in the best fifth of the positions |", "|---|---|---|"]  # fmt: skip
    gates, mass = figures["gate_above_zero_by_layer"], figures["attention_in_top_fifth_by_layer"]
    for i, (g, m) in enumerate(zip(gates, mass)):
        out.append(f"| {i} | {100 * g:.1f} % | {100 * m:.1f} % |")
    if c["activation"] == "relu":
        out.append(f"\nA neuron fires where its gate is above zero: {100 * sum(gates) / len(gates):.1f} % of all.")
    out += ["", "## Samples", "", "As they came, the first of each setting."]
    for s in figures.get("samples", []):
        how = "greedy" if s["temperature"] == 0 else f"temperature {s['temperature']}"
        kind = "asked" if s["kind"] == "chat" else "to be continued"
        out += ["", f"{kind.capitalize()} ({how}):", "", quote(s["prompt"]), "", "```text", s["text"].strip(), "```"]
    return "\n".join(out) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("evaluated", type=Path)
    p.add_argument("manifest", type=Path)
    p.add_argument("log", type=Path)
    p.add_argument("out", type=Path)
    p.add_argument("--made", default="", help="words after the number of steps")
    a = p.parse_args()
    log = [json.loads(x) for x in a.log.read_text().splitlines()]
    made = f", {a.made}" if a.made else ""
    text = card(json.loads(a.evaluated.read_text()), json.loads(a.manifest.read_text()), log, made)
    a.out.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
