"""Trains a model on, for longer texts than it knew: from a GGUF file to one with more positions.

    python3 lengthen.py MODEL.gguf PREPARED OUT --minutes 6 [--context 4096] [--makers 14]

PREPARED comes from `prepare.py --tokenizer MODEL.gguf`. Half of the rows are those of train.py; the others are as long as
the context or a part of it, and ask for what stood far before (distant.py). Several processes make rows while the model is
trained. A GPU is needed for a useful length. OUT gets model.pt, log.jsonl, loss.svg and held_out.json.
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

# Length of the rows of a step, step by step. Attention over long rows is dear, and teaches what is new here.
TURN = (1, 4, 1, 2, 1, 16)  # parts of the context
SHARES = {"pairs": 0.25, "needles": 0.25, "copies": 0.25, "book": 0.1, "usual": 0.15}
ECHOES = 0.1  # of the usual rows


class Maker:
    """Batches of one process, in a seeded order: (tokens, weights) for the steps step, step + n_makers, ..."""

    def __init__(self, a, number):
        self.a, self.step = a, number
        self.rng = random.Random(f"{a.seed} {number}")
        tokenizer = bpe.Tokenizer.of_file(a.model)
        arrays = dict(np.load(a.prepared / "train.npz"))
        books = distant.Books(arrays["books"], tokenizer)
        self.rows = distant.DistantRows(Values(self.rng, held_out=False), tokenizer, books)
        # A row has a token more than its length, so that a round of a.batch tokens would lack a row.
        self.usual = data.Rows(arrays, [a.seed, number], a.batch * 5 // 4, len(tokenizer.tokens))

    def batch(self):
        length = self.a.context // TURN[self.step % len(TURN)]
        self.step += self.a.makers
        n_rows = max(1, self.a.batch // length)
        tokens, weights = self.usual.rows(length, ECHOES, 1.0)
        n_usual = n_rows if length < 1024 else sum(self.rng.random() < SHARES["usual"] for _ in range(n_rows))
        parts = [(t, w) for t, w in zip(tokens[:n_usual], weights[:n_usual])]
        kinds = [k for k in SHARES if k != "usual"]
        while len(parts) < n_rows:
            kind = self.rng.choices(kinds, [SHARES[k] for k in kinds])[0]
            parts.append(getattr(self.rows, kind)(length + 1))
        return np.stack([p[0] for p in parts]).astype(np.int16), np.stack([p[1] for p in parts]).astype(np.uint8)


def make(a, number, queue):
    torch.set_num_threads(1)
    maker = Maker(a, number)
    while True:
        queue.put(maker.batch())


class Batches:
    """What the makers make, in the order of the steps."""

    def __init__(self, a):
        context = multiprocessing.get_context("spawn")
        self.queues = [context.Queue(3) for _ in range(a.makers)]
        self.processes = [context.Process(target=make, args=(a, i, q), daemon=True) for i, q in enumerate(self.queues)]
        for p in self.processes:
            p.start()
        self.step = 0

    def next(self):
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
        v = Values(random.Random(f"{a.seed} held out"), held_out=True)
        texts = [p.read_text("utf-8") for p in sorted((a.prepared / "held_out/books").glob("*.txt"))]
        books = distant.Books([t for text in texts for t in tokenizer.encode(text)], tokenizer)
        sizes = (a.context // 4, a.context // 2, a.context)
        self.examples = [e for s in sizes for e in distant.examples(v, tokenizer, books, s, n_examples)]

    def measure(self, model):
        result = self.usual.measure(model)
        for size in sorted({e["tokens"] for e in self.examples}):
            asked = [e for e in self.examples if e["tokens"] == size and e["kind"] != "copies"]
            result[f"match_{size}"] = {k: round(x, 3) for k, x in measure.exact_match(model, self.tokenizer, asked, 8).items()}
            copies = [e for e in self.examples if e["tokens"] == size and e["kind"] == "copies"]
            result[f"copy_nats_{size}"] = round(self.copy_nats(model, copies), 4)
        return result

    @torch.no_grad()
    def copy_nats(self, model, examples):
        """Nats per token of what ends a text as it began."""
        device = model.embedding.weight.device
        sums = []
        for e in examples:
            prompt, reply = self.tokenizer.encode(e["prompt"]), self.tokenizer.encode(e["answer"])
            row = torch.tensor([[bpe.BOS, *prompt, *reply]], device=device)[:, : model.config.context + 1]
            n = row.shape[1] - 1 - len(prompt)
            with measure.judging(model):
                logits = model(row[:, :-1])[0, -n:].float()
            sums.append(float(F.cross_entropy(logits, row[0, -n:])))
        return sum(sums) / len(sums)


class Lengthening:
    def __init__(self, a):
        torch.manual_seed(a.seed)
        self.a, self.began, self.step, self.tokens = a, time.time(), 0, 0
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

    def progress(self):
        return (time.time() - self.began) / 60 / self.a.minutes if self.a.minutes else self.step / self.a.steps

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

    def save(self):
        names = [n for n, _ in self.model.named_parameters()]
        state = {"config": self.model.config.to_dict(), "model": self.model.state_dict(), "step": self.step,
                 "tokens": self.tokens, "mean": dict(zip(names, self.mean))}  # fmt: skip
        torch.save(state, self.a.out / "model.pt.part")
        (self.a.out / "model.pt.part").rename(self.a.out / "model.pt")

    def run(self):
        self.a.out.mkdir(parents=True, exist_ok=True)
        batches = Batches(self.a)
        first = self.measure()
        print("before:", json.dumps(first), flush=True)
        batches.next()  # what starts slowly is there
        self.began = time.time()
        with open(self.a.out / "log.jsonl", "w", encoding="utf-8") as log:
            losses = []
            while self.progress() < 1:
                self.set_rate()
                for o in self.optimizers:
                    o.zero_grad()
                tokens, weights = batches.next()
                losses.append(self.loss_and_gradient(tokens, weights))
                torch.nn.utils.clip_grad_norm_([self.model.embedding.weight], 1.0)
                for o in self.optimizers:
                    o.step()
                self.step += 1
                self.tokens += tokens.size
                keep = min(train.AVERAGE, self.step / (self.step + 10))
                for mean, p in zip(self.mean, self.model.parameters()):
                    mean.lerp_(p.detach(), 1 - keep)
                if self.step % 20 == 0:
                    losses = self.report(losses, log)
                    self.save()
        batches.end()
        self.save()
        last = self.measure()
        (self.a.out / "held_out.json").write_text(json.dumps({"before": first, "after": last}, indent=2) + "\n")
        print("after:", json.dumps(last), flush=True)
        plot.loss_plot(self.a.out / "log.jsonl", self.a.out / "loss.svg")

    def report(self, losses, log):
        loss = float(torch.stack(losses).mean())
        if not np.isfinite(loss):
            raise SystemExit(f"step {self.step}: the loss is {loss}; begin again with a smaller --muon-lr")
        seconds = time.time() - self.began
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
