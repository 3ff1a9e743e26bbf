"""All of the recipe in one command, which can be stopped at any time and given again.

    python3 make_models.py DATA OUT --preset cpu|gpu|smoke [--minutes 9] [--parts DIRECTORY] [--models models]

It does what is not done yet: prepares DATA into OUT/prepared, trains OUT/silu and OUT/relu, exports both,
measures them, and writes the cards. After --minutes it pauses: the state is kept in OUT and, with --parts,
also as files of at most 15 MiB that a fresh machine goes on from. DATA may be missing where OUT/prepared
is there. The status is 0 when all is done, 3 when it paused.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import bpe
import card
import evaluate
import export
import pack
import plot
import prepare
import torch
import train

# Shapes are multiples of 256, so that every block format applies. The ReLU model of the CPU starts from
# the SiLU model of the same shape; a GPU has time to train it from nothing, and wider.
PRESETS = {
    "cpu": {
        "tasks": 80000,
        "shape": ["--width", "256", "--layers", "4", "--heads", "8", "--kv-heads", "4", "--ffn", "768"],
        "silu": ["--steps", "5200", "--batch", "4096"],
        "relu": ["--steps", "1200", "--batch", "4096", "--muon-lr", "0.015", "--seed", "2"],
        "relu_from_silu": True,
    },
    "gpu": {
        "tasks": 160000,
        "shape": ["--width", "512", "--layers", "5", "--heads", "8", "--kv-heads", "4", "--ffn", "1024"],
        "silu": ["--steps", "3000", "--batch", "32768", "--micro-batch", "32768", "--dropout", "0.1"],
        "relu": ["--layers", "4", "--ffn", "1536", "--steps", "3000", "--batch", "32768",
                 "--micro-batch", "32768", "--dropout", "0.1"],
        "relu_from_silu": False,
    },
    "smoke": {
        "tasks": 250,
        "shape": ["--width", "64", "--layers", "2", "--heads", "4", "--ffn", "128", "--context", "1024"],
        "silu": ["--steps", "16", "--batch", "1024"],
        "relu": ["--steps", "120", "--batch", "512"],
        "relu_from_silu": True,
    },
}  # fmt: skip


class Recipe:
    def __init__(self, a):
        self.a, self.preset, self.began = a, PRESETS[a.preset], time.time()
        self.prepared = a.out / "prepared"

    def minutes_left(self):
        return None if self.a.minutes is None else self.a.minutes - (time.time() - self.began) / 60

    def prepare(self):
        if (self.prepared / "manifest.json").exists():  # written last
            return
        small = self.a.preset == "smoke"
        prepare.prepare(self.a.data, self.prepared, self.preset["tasks"], n_vocab=512 if small else 4096,
                        per_kind=4 if small else 100)  # fmt: skip

    def state(self, kind):
        path = self.a.out / kind / "model.pt"
        return torch.load(path, map_location="cpu", weights_only=False) if path.exists() else None

    def train(self, kind):
        """True when this model is trained to the end."""
        run = self.a.out / kind
        if self.a.parts and not (run / "model.pt").exists():
            print(f"{kind}: found in parts: {pack.unpack(self.a.parts, run)}", flush=True)
        more = [*self.preset["shape"], *self.preset[kind], "--activation", kind, *self.a.train_options]
        start = self.a.out / "silu/stable.pt"
        if kind == "relu" and self.preset["relu_from_silu"]:
            more += ["--from", str(start)]
        left = self.minutes_left()
        if left is not None:
            more += ["--pause-after", str(max(0.0, left))]
        options = train.parse([str(self.prepared), str(run), *more])
        state = self.state(kind)
        if state and state["step"] >= options.steps:
            return True
        if left is not None and left <= 0:
            return False
        train.main(options)
        if self.a.parts:
            pack.pack(run, self.a.parts)
        return self.state(kind)["step"] >= options.steps

    def finish(self, kind):
        model, _ = export.load_checkpoint(self.a.out / kind / "model.pt")
        tokenizer = bpe.Tokenizer.load(self.prepared / "tokenizer.json")
        models = self.a.models
        models.mkdir(parents=True, exist_ok=True)
        name = f"troika-{kind}"
        export.export(model, tokenizer, models / f"{name}-f16.gguf", name, "F16")
        export.export(model, tokenizer, models / f"{name}-q8_0.gguf", name, "Q8_0")
        figures, model, tokenizer = evaluate.evaluate(models / f"{name}-q8_0.gguf", self.prepared)
        figures["samples"] = list(evaluate.samples(model, tokenizer, 10 if self.a.preset == "smoke" else 180))
        (self.a.out / f"{name}.json").write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
        log = [json.loads(x) for x in (self.a.out / kind / "log.jsonl").read_text().splitlines()]
        plot.loss_plot(self.a.out / kind / "log.jsonl", models / f"{name}-loss.svg", f"Training of {name}")
        manifest = json.loads((self.prepared / "manifest.json").read_text())
        made = f", with the preset {self.a.preset}"
        if kind == "relu" and self.preset["relu_from_silu"]:
            made += ", from troika-silu as it was before its learning rate fell"
        text = card.card(figures, manifest, log, made)
        (models / f"{name}.md").write_text(text, "utf-8")
        print(f"{name}: {json.dumps({k: figures[k] for k in ('bytes', 'books', 'stories', 'tasks')})}", flush=True)

    def run(self):
        self.prepare()
        for kind in ("silu", "relu"):
            if not self.train(kind):
                print(f"paused in {kind}; give the same command again to go on", flush=True)
                return 3
            if not (self.a.models / f"troika-{kind}.md").exists():
                self.finish(kind)
        return 0


def parse(argv=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data", type=Path)
    p.add_argument("out", type=Path)
    p.add_argument("--preset", choices=PRESETS, required=True)
    p.add_argument("--minutes", type=float, help="pause after so many, preparation included")
    p.add_argument("--parts", type=Path, help="also keep the state here in files of at most 15 MiB")
    p.add_argument("--models", type=Path, help="where the models and cards go, default OUT/models")
    p.epilog = "What follows a lone -- are options for train.py."
    argv = sys.argv[1:] if argv is None else list(argv)
    end = argv.index("--") if "--" in argv else len(argv)
    a = p.parse_args(argv[:end])
    a.train_options = argv[end + 1 :]
    a.models = a.models or a.out / "models"
    return a


if __name__ == "__main__":
    sys.exit(Recipe(parse()).run())
