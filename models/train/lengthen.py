"""Trains a model on, for longer texts than it knew: from a GGUF file to one with more positions.

    python3 lengthen.py MODEL.gguf PREPARED OUT --minutes 6 [--context 4096] [--makers 14]

PREPARED comes from `prepare.py --tokenizer MODEL.gguf`. Most rows ask for what stood far before (distant.py). They are
short at first, because finding is learned sooner where there is little to look through and costs less there, and as long as
the context later. Other processes make rows while the model is trained. OUT gets model.pt, log.jsonl, loss.svg and
held_out.json; given again with more minutes, the training goes on from stable.pt, the state before the rate fell, or from
model.pt where it was stopped.
"""

import argparse
import json
import multiprocessing
import random
import time
from pathlib import Path

import bpe
import data
import distant
import export
import measure
import numpy as np
import plot
import torch
import torch.nn.functional as F
import train
from model import Config, Model
from values import Values

# Length of the rows of a step, step by step, as parts of the context, from a share of the training on.
TURNS = ((0.0, (4, 8, 4, 16, 8, 2)), (0.3, (2, 4, 2, 8, 4, 1)), (0.6, (1, 2, 1, 4, 1, 8)))
LEAST_ASKED = 256  # tokens of rows that ask for something
SHARES = {"pairs": 0.25, "needles": 0.25, "copies": 0.25, "book": 0.1, "usual": 0.15}
ECHOES = 0.1  # of the usual rows


def row_length(context, step, progress):
    turn = [t for start, t in TURNS if progress >= start][-1]
    return context // turn[step % len(turn)]


class Maker:
    """Batches of one process, in a seeded order: (tokens, weights) for the steps step, step + n_makers, ..."""

    def __init__(self, a, number, start):
        self.a, self.step = a, number + start
        self.rng = random.Random(f"{a.seed} {number} {start}")
        tokenizer = bpe.Tokenizer.of_file(a.model)
        arrays = dict(np.load(a.prepared / "train.npz"))
        books = distant.Books(arrays["books"], tokenizer)
        self.rows = distant.DistantRows(Values(self.rng, held_out=False), tokenizer, books)
        # A row has a token more than its length, so that a round of a.batch tokens would lack a row.
        self.usual = data.Rows(arrays, [a.seed, number, start], a.batch * 5 // 4, len(tokenizer.tokens))

    def batch(self, progress):
        length = row_length(self.a.context, self.step, progress)
        self.step += self.a.makers
        n_rows = max(1, self.a.batch // length)
        tokens, weights = self.usual.rows(length, ECHOES, 1.0)
        usual = 1.0 if length < LEAST_ASKED else SHARES["usual"]
        n_usual = min(len(tokens), sum(self.rng.random() < usual for _ in range(n_rows)))
        parts = [(t, w) for t, w in zip(tokens[:n_usual], weights[:n_usual])]
        kinds = [k for k in SHARES if k != "usual"]
        while len(parts) < n_rows:
            kind = self.rng.choices(kinds, [SHARES[k] for k in kinds])[0]
            parts.append(getattr(self.rows, kind)(length + 1))
        return np.stack([p[0] for p in parts]).astype(np.int16), np.stack([p[1] for p in parts]).astype(np.uint8)


def make(a, number, start, progress, queue):
    torch.set_num_threads(1)
    maker = Maker(a, number, start)
    while True:
        # Counted steps give the same rows whenever they are made; minutes cannot.
        queue.put(maker.batch(maker.step / a.steps if a.steps else progress.value))


class Batches:
    """What the makers make, in the order of the steps."""

    def __init__(self, a, start, progress):
        context = multiprocessing.get_context("spawn")
        self.progress = context.Value("d", progress)
        self.queues = [context.Queue(3) for _ in range(a.makers)]
        arguments = [(a, i, start, self.progress, q) for i, q in enumerate(self.queues)]
        self.processes = [context.Process(target=make, args=x, daemon=True) for x in arguments]
        for p in self.processes:
            p.start()
        self.step = 0

    def next(self, progress):
        self.progress.value = progress
        self.step += 1
        return self.queues[(self.step - 1) % len(self.queues)].get()

    def end(self):
        for p in self.processes:
            p.terminate()


class HeldOut:
    """Usual held-out figures, and what is asked over long distances."""

    def __init__(self, a, tokenizer, n_examples):
        self.usual = train.HeldOut(a.prepared / "held_out", tokenizer)
        self.tokenizer = tokenizer
        sizes = (a.context // 4, a.context // 2, a.context)
        self.examples = distant.held_out(a.prepared, tokenizer, sizes, n_examples, f"{a.seed} held out")

    def measure(self, model):
        return self.usual.measure(model) | measure.distant_figures(model, self.tokenizer, self.examples)


class Lengthening:
    def __init__(self, a):
        torch.manual_seed(a.seed)
        if a.threads:
            torch.set_num_threads(a.threads)
        self.a, self.began, self.step, self.tokens, self.seconds_before = a, time.time(), 0, 0, 0.0
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        known, self.tokenizer = export.load_gguf(a.model)
        # Slower rotations keep far positions within the angles that the model knows.
        base = a.rope_base or known.config.rope_base
        config = Config(**{**known.config.to_dict(), "context": a.context, "dropout": a.dropout, "rope_base": base})
        self.model = Model(config).to(self.device)
        self.model.load_state_dict(known.state_dict())
        self.optimizers = train.make_optimizers(self.model, a.muon_lr, a.adam_lr)
        self.mean = [p.detach().clone() for p in self.model.parameters()]
        self.held_out = HeldOut(a, self.tokenizer, a.examples)
        self.first = None
        self.go_on()

    def planned(self):
        return [self.a.minutes, self.a.steps]

    def go_on(self):
        """From where a training into the same folder was stopped; from before its rate fell, where it is to be longer."""
        if not (self.a.out / "model.pt").exists():
            return
        state = torch.load(self.a.out / "model.pt", map_location=self.device, weights_only=False)
        if "fell" not in state:
            raise SystemExit(f"{self.a.out}/model.pt is none of this training's; give another folder")
        if state["config"] != self.model.config.to_dict():
            raise SystemExit(f"{self.a.out} was trained with other options of the model; give the same, or another folder")
        if state["fell"] and state["planned"] != self.planned():
            state = torch.load(self.a.out / "stable.pt", map_location=self.device, weights_only=False)
        self.model.load_state_dict(state["model"])
        for optimizer, known in zip(self.optimizers, state["optimizers"]):
            peaks = [g["peak"] for g in optimizer.param_groups]
            optimizer.load_state_dict(known)
            for group, peak in zip(optimizer.param_groups, peaks):
                group["peak"] = peak
        self.mean = [state["mean"][n] for n, _ in self.model.named_parameters()]
        self.step, self.tokens, self.seconds_before = state["step"], state["tokens"], state["seconds"]
        self.first = state["first"]
        log = self.a.out / "log.jsonl"
        lines = log.read_text("utf-8").splitlines() if log.exists() else []
        log.write_text("".join(x + "\n" for x in lines if json.loads(x)["step"] <= self.step), "utf-8")
        print(f"goes on from step {self.step}", flush=True)

    def seconds(self):
        return self.seconds_before + time.time() - self.began

    def progress(self):
        return self.seconds() / 60 / self.a.minutes if self.a.minutes else self.step / self.a.steps

    def set_rate(self):
        """Linear up, flat, then down to zero over the last part."""
        fall = (1 - min(1.0, self.progress())) / (1 - train.DECAY_START) + 0.01
        scale = min(1.0, (self.step + 1) / 100, fall)
        for o in self.optimizers:
            for g in o.param_groups:
                g["lr"] = g["peak"] * scale

    def loss_and_gradient(self, tokens, weights):
        t = torch.from_numpy(tokens).to(self.device).long()
        w = torch.from_numpy(weights).to(self.device).float()[:, 1:]
        learned = w > 0
        with measure.autocast(self.device):
            x = self.model.hidden(t[:, :-1])[learned]
            logits = F.linear(x, self.model.embedding.weight)
        loss = F.cross_entropy(logits.float(), t[:, 1:][learned], reduction="none")
        loss = (loss * w[learned]).sum() / w.sum()
        loss.backward()
        return loss.detach()

    def measure(self):
        with measure.weights(self.model, self.mean):
            return self.held_out.measure(self.model)

    def save(self, name="model.pt"):
        names = [n for n, _ in self.model.named_parameters()]
        state = {"config": self.model.config.to_dict(), "model": self.model.state_dict(), "step": self.step,
                 "tokens": self.tokens, "mean": dict(zip(names, self.mean)), "seconds": self.seconds(),
                 "optimizers": [o.state_dict() for o in self.optimizers], "first": self.first,
                 "fell": self.progress() >= train.DECAY_START, "planned": self.planned()}  # fmt: skip
        torch.save(state, self.a.out / f"{name}.part")
        (self.a.out / f"{name}.part").rename(self.a.out / name)

    def run(self):
        self.a.out.mkdir(parents=True, exist_ok=True)
        batches = Batches(self.a, self.step, self.progress())
        if self.first is None:
            self.first = self.measure()
            print("before:", json.dumps(self.first), flush=True)
        batches.next(self.progress())  # what starts slowly is there
        self.began = time.time()
        with open(self.a.out / "log.jsonl", "a" if self.step > 0 else "w", encoding="utf-8") as log:
            losses = []
            while self.progress() < 1:
                fell = self.progress() >= train.DECAY_START
                losses.append(self.learn(*batches.next(self.progress())))
                if not fell and self.progress() >= train.DECAY_START:
                    self.save("stable.pt")
                if self.step % 20 == 0:
                    losses = self.report(losses, log)
                    self.save()
        batches.end()
        self.save()
        last = self.measure()
        (self.a.out / "held_out.json").write_text(json.dumps({"before": self.first, "after": last}, indent=2) + "\n")
        print("after:", json.dumps(last), flush=True)
        plot.loss_plot(self.a.out / "log.jsonl", self.a.out / "loss.svg")

    def learn(self, tokens, weights):
        self.set_rate()
        for o in self.optimizers:
            o.zero_grad()
        loss = self.loss_and_gradient(tokens, weights)
        torch.nn.utils.clip_grad_norm_([self.model.embedding.weight], 1.0)
        for o in self.optimizers:
            o.step()
        self.step += 1
        self.tokens += tokens.size
        keep = min(train.AVERAGE, self.step / (self.step + 10))
        for mean, p in zip(self.mean, self.model.parameters()):
            mean.lerp_(p.detach(), 1 - keep)
        return loss

    def report(self, losses, log):
        loss = float(torch.stack(losses).mean())
        if not np.isfinite(loss):
            raise SystemExit(f"step {self.step}: the loss is {loss}; begin again with a smaller --muon-lr")
        seconds = self.seconds()
        entry = {"step": self.step, "tokens": self.tokens, "seconds": round(seconds), "loss": round(loss, 4)}
        if self.step % self.a.eval_every == 0:
            entry |= self.measure()
        print(json.dumps(entry), f"{self.tokens / seconds:.0f} tokens/s", flush=True)
        log.write(json.dumps(entry) + "\n")
        log.flush()
        return []


def parse(argv=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=Path)
    p.add_argument("prepared", type=Path)
    p.add_argument("out", type=Path)
    p.add_argument("--context", type=int, default=4096)
    length = p.add_mutually_exclusive_group(required=True)
    length.add_argument("--minutes", type=float)
    length.add_argument("--steps", type=int)
    p.add_argument("--batch", type=int, default=65536, help="tokens a step")
    p.add_argument("--makers", type=int, default=14, help="processes that make rows")
    p.add_argument("--threads", type=int, help="that train; default all")
    p.add_argument("--examples", type=int, default=24, help="of each kind and length, to watch the training by")
    p.add_argument("--eval-every", type=int, default=1000, help="steps")
    p.add_argument("--rope-base", type=float, help="of the rotations; default the model's own")
    p.add_argument("--dropout", type=float, default=0.05)
    p.add_argument("--muon-lr", type=float, default=0.02)
    p.add_argument("--adam-lr", type=float, default=3e-3)
    p.add_argument("--seed", type=int, default=3)
    return p.parse_args(argv)


if __name__ == "__main__":
    Lengthening(parse()).run()
