"""Trains one model, on a CPU or a GPU, for a number of minutes or of steps. It can be stopped and resumed.

    python3 train.py PREPARED OUT --activation silu --minutes 60

The learning rate rises, stays, and falls in the last part. Beside the weights their running mean is kept,
which is what is measured and exported, so that every checkpoint is of use. What stands before the fall is kept as stable.pt, so that a longer training can go on from there (--from-stable).
A ReLU model may start from the weights of a SiLU model of the same shape (--from RUN/stable.pt).
With --workers 2 two processes share each step; on busy cores that is faster than two threads.
OUT gets model.pt (the last state), log.jsonl and loss.svg.
"""

import argparse
import json
import math
import os
import time
from pathlib import Path

import data
import measure
import numpy as np
import plot
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from bpe import Tokenizer
from model import Config, Model
from optim import make_optimizers

DECAY_START = 0.70  # from which share of the training on the rate falls
# Short rows are cheap and hold most tasks; long ones teach far positions. They take turns round by round.
EARLY_ROWS, LATE_ROWS = (256, 256, 256, 1024), (256, 512, 2048)
AVERAGE = 0.99  # of the running mean of the weights, which is better than the last weights at a flat rate


def parse(argv=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("prepared", type=Path)
    p.add_argument("out", type=Path)
    p.add_argument("--activation", choices=("silu", "relu"), default="silu")
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--layers", type=int, default=6)
    p.add_argument("--ffn", type=int, default=768)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--kv-heads", type=int, default=2)
    p.add_argument("--context", type=int, default=2048)
    p.add_argument("--dropout", type=float, default=0.0)
    p.add_argument("--minutes", type=float, help="training time, earlier runs counted in")
    p.add_argument("--steps", type=int, help="instead of minutes: reproducible to the last step")
    p.add_argument("--stop-at", type=int, help="pause after this step")
    p.add_argument("--pause-after", type=float, help="pause after so many minutes of this run")
    p.add_argument("--batch", type=int, default=8192, help="tokens a step")
    p.add_argument("--micro-batch", type=int, default=8192, help="tokens at once")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--muon-lr", type=float, default=0.02)
    p.add_argument("--adam-lr", type=float, default=3e-3)
    p.add_argument("--active-target", type=float, default=0.11, help="share of active neurons (relu)")
    p.add_argument("--eval-every", type=int, default=100, help="steps")
    p.add_argument("--save-every", type=float, default=300, help="seconds")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--workers", type=int, default=1, help="processes that share each step (CPU)")
    p.add_argument("--rank", type=int, help="be this one of the workers; the others are started alike")
    p.add_argument("--port", type=int, default=29517, help="where the workers meet")
    p.add_argument("--from", dest="start", type=Path, help="checkpoint whose weights to start from")
    p.add_argument("--from-stable", action="store_true", help="resume before the learning rate fell")
    a = p.parse_args(argv)
    if (a.minutes is None) == (a.steps is None):
        p.error("give --minutes or --steps")
    if a.from_stable and not (a.out / "stable.pt").exists():
        p.error(f"--from-stable goes on from {a.out / 'stable.pt'}, which is not there: it is kept when the learning rate "
                "begins to fall. Without the option the training goes on from model.pt.")
    return a


class HeldOut:
    """A small sample of the held-out texts and tasks, to watch the training by."""

    def __init__(self, folder, tokenizer, size=512):
        self.windows = {}
        books = [p.read_text("utf-8") for p in sorted((folder / "books").glob("*.txt"))]
        stories = json.loads((folder / "stories.json").read_text("utf-8"))[:24]
        book_windows = []
        for book in books:
            tokens = tokenizer.encode(book[len(book) // 4 :][:12000])
            book_windows += measure.windows_of(tokens, size)
        self.windows["books"] = book_windows
        self.windows["stories"] = [measure.windows_of(tokenizer.encode(s), size)[0] for s in stories]
        self.characters = {n: sum(len(tokenizer.decode(w)) for w in ws) for n, ws in self.windows.items()}
        lines = (folder / "tasks.jsonl").read_text("utf-8").splitlines()
        self.tasks = [json.loads(x) for x in lines][::10]
        self.tokenizer = tokenizer

    def measure(self, model):
        result = {}
        for name, windows in self.windows.items():
            nats, _ = measure.text_loss(model, windows)
            result[f"{name}_bpc"] = round(measure.bits_per_character(nats, self.characters[name]), 4)
        match = measure.exact_match(model, self.tokenizer, self.tasks)
        result["match"] = {k: round(x, 3) for k, x in match.items()}
        return result


class Training:
    def __init__(self, a, rank=0):
        torch.manual_seed(a.seed)
        self.rank = rank
        self.began = time.time()
        if a.threads:
            torch.set_num_threads(a.threads)
        self.a = a
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.tokenizer = Tokenizer.load(a.prepared / "tokenizer.json")
        config = Config(len(self.tokenizer.tokens), a.width, a.layers, a.heads, a.kv_heads, a.ffn, a.context, a.activation)
        config.dropout = a.dropout
        self.model = Model(config).to(self.device)
        self.optimizers = make_optimizers(self.model, a.muon_lr, a.adam_lr)
        self.step, self.seconds, self.tokens, self.pressure = 0, 0.0, 0, 0.05
        self.mean = [p.detach().clone() for p in self.model.parameters()]
        self.risen_from = 0  # the step from which the rate rises
        self.data_state, self.skip, self.length = None, 0, 0  # where the data stand: round, steps in it
        self.echoes, self.mixture = 0.0, 0.0  # of this round: share of echoes, progress that its shares follow
        a.out.mkdir(parents=True, exist_ok=True)
        path = a.out / ("stable.pt" if a.from_stable else "model.pt")
        if path.exists():
            self.load(path)
        elif a.start:
            self.model.load_state_dict(torch.load(a.start, map_location=self.device, weights_only=False)["model"])
            self.mean = [p.detach().clone() for p in self.model.parameters()]
        self.arrays = dict(np.load(a.prepared / "train.npz"))
        self.held_out = HeldOut(a.prepared / "held_out", self.tokenizer, min(512, a.context))

    def load(self, path):
        s = torch.load(path, map_location=self.device, weights_only=False)
        self.model.load_state_dict(s["model"])
        names = [n for n, _ in self.model.named_parameters()]
        self.mean = [s.get("mean", s["model"])[n].to(self.device).clone() for n in names]
        for o, state in zip(self.optimizers, s.get("optimizers", [])):
            o.load_state_dict(state)
        self.step, self.seconds, self.tokens = s["step"], s["seconds"], s["tokens"]
        self.pressure, self.data_state = s["pressure"], s["data"]
        self.skip, self.length, self.echoes = s["skip"], s["length"], s["echoes"]
        self.mixture = s.get("mixture", 0.0)
        if "optimizers" not in s:  # from pack.py: they start anew, and so does the rise of the rate
            self.risen_from = self.step
        log = self.a.out / "log.jsonl"
        if self.rank == 0 and log.exists():
            lines = [x for x in log.read_text().splitlines() if json.loads(x)["step"] <= self.step]
            log.write_text("".join(x + "\n" for x in lines))
        print(f"resumed at step {self.step}", flush=True)

    def save(self, name="model.pt"):
        state = {
            "config": self.model.config.to_dict(),
            "model": self.model.state_dict(),
            "mean": dict(zip((n for n, _ in self.model.named_parameters()), self.mean)),
            "optimizers": [o.state_dict() for o in self.optimizers],
            "step": self.step, "seconds": self.seconds, "tokens": self.tokens,
            "pressure": self.pressure, "data": self.data_state, "skip": self.skip, "length": self.length,
            "echoes": self.echoes, "mixture": self.mixture,
        }  # fmt: skip
        torch.save(state, self.a.out / (name + ".part"))
        (self.a.out / (name + ".part")).rename(self.a.out / name)

    def agree(self, *numbers):
        """The sum over the workers of some numbers."""
        if self.a.workers == 1:
            return numbers
        t = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(t)
        return t.tolist()

    def share_gradients(self):
        if self.a.workers > 1:
            grads = [p.grad for p in self.model.parameters()]
            flat = torch.cat([g.flatten() for g in grads])
            dist.all_reduce(flat)
            for g, part in zip(grads, flat.split([g.numel() for g in grads])):
                g.copy_(part.view_as(g))

    def progress(self):
        return self.step / self.a.steps if self.a.steps else self.seconds / 60 / self.a.minutes

    def out_of_time(self):
        limit = self.a.pause_after
        return limit is not None and self.agree(time.time() - self.began)[0] > 60 * limit * self.a.workers

    def batches(self):
        """(tokens, weights) of a step each; the row length follows the progress from round to round."""
        rows = data.Rows(self.arrays, self.a.seed, max(125_000, 8 * self.a.batch), self.model.config.vocab, self.data_state)
        while True:
            self.data_state = rows.state()
            if self.skip == 0:
                turn = EARLY_ROWS if self.progress() < DECAY_START else LATE_ROWS
                self.length = min(self.a.context, turn[rows.round % len(turn)])
                # A model that starts from another has learned to copy there.
                self.mixture = 1.0 if self.a.start else self.progress()
                self.echoes = data.echoes(self.mixture)
            length = self.length
            tokens, weights = rows.rows(length, self.echoes, self.mixture)
            per_step = max(self.a.workers, self.a.batch // length)
            starts = range(0, max(1, len(tokens) - per_step + 1), per_step)
            for i in starts[self.skip :]:
                yield tokens[i : i + per_step], weights[i : i + per_step]
            self.skip = 0

    def set_rate(self):
        """Linear up, flat, then down to zero over the last part."""
        p = min(1.0, self.progress())
        scale = min(1.0, (self.step - self.risen_from + 1) / 60, (1 - p) / (1 - DECAY_START) + 0.01)
        for o in self.optimizers:
            for g in o.param_groups:
                g["lr"] = g["peak"] * scale
        for g in self.optimizers[0].param_groups:
            g["momentum"] = min(0.95, 0.85 + self.step / 3000)
        return scale

    def loss_and_gradient(self, tokens, weights):
        """Adds up the gradient of a step over micro-batches; returns the mean loss and active share."""
        t = torch.from_numpy(tokens).long().to(self.device)
        w = torch.from_numpy(weights).float().to(self.device)[:, 1:]
        n_all = len(t)
        total_weight = float(w.sum())
        t, w = t[self.rank :: self.a.workers], w[self.rank :: self.a.workers]
        rows = max(1, self.a.micro_batch // (t.shape[1] - 1))
        layers = [b.ffn for b in self.model.blocks if b.ffn.relu]
        loss_sum, active = 0.0, 0.0
        for i in range(0, len(t), rows):
            part, part_w = t[i : i + rows], w[i : i + rows]
            for f in layers:
                f.watch = True
            learned = part_w > 0  # the head is a quarter of the work: only where something is learned
            with measure.autocast(self.device):
                x = self.model.hidden(part[:, :-1])[learned]
                logits = F.linear(x, self.model.embedding.weight)
            loss = F.cross_entropy(logits.float(), part[:, 1:][learned], reduction="none")
            loss = (loss * part_w[learned]).sum() / total_weight
            loss_sum += float(loss.detach())
            if layers:
                share = len(part) / n_all
                loss = loss + self.pressure * share * sum(f.penalty for f in layers)
                active += share * float(sum(f.active for f in layers)) / len(layers)
                for f in layers:
                    f.watch = False
            loss.backward()
        self.share_gradients()
        return self.agree(loss_sum, active)

    def measure(self):
        """Held-out figures of the mean of the weights."""
        with measure.weights(self.model, self.mean):
            return self.held_out.measure(self.model)

    def report(self, entry, smooth, rate, scale, row):
        if self.step % 10 == 0:
            line = f"step {self.step}  {100 * self.progress():5.1f} %  loss {smooth:.3f}  rate x{scale:.2f}"
            line += f"  row {row}  {rate:.0f} tokens/s"
            if "active" in entry:
                line += f"  active {100 * entry['active']:.1f} % (pressure {self.pressure:.3g})"
            print(line, flush=True)
        if self.step % self.a.eval_every == 0:
            seen = self.measure()
            entry.update(seen)
            print("  held out:", json.dumps(seen), flush=True)

    def run(self):
        with open(self.a.out / "log.jsonl", "a", encoding="utf-8") as log:
            self.steps(log)
        if self.rank > 0:
            return
        self.save()
        print("held out:", json.dumps(self.measure()), flush=True)
        plot.loss_plot(self.a.out / "log.jsonl", self.a.out / "loss.svg")

    def steps(self, log):
        """Trains until the time or the steps are used up."""
        last_save, saved_stable = time.time(), self.progress() >= DECAY_START
        smooth = None
        for tokens, weights in self.batches():
            if self.progress() >= 1 or self.step == self.a.stop_at or self.out_of_time():
                break
            if not saved_stable and self.progress() >= DECAY_START:
                saved_stable = True
                if self.rank == 0:
                    self.save("stable.pt")
            began = time.time()
            scale = self.set_rate()
            for o in self.optimizers:
                o.zero_grad()
            loss, active = self.loss_and_gradient(tokens, weights)
            if not math.isfinite(loss):
                raise SystemExit(f"step {self.step}: the loss is {loss}; resume with a smaller --muon-lr")
            if self.model.config.activation == "relu":
                # Steers the penalty so that the share settles at the target, ever slower as it comes near.
                off = active / self.a.active_target - 1
                self.pressure = min(10.0, self.pressure * math.exp(0.03 * max(-1.0, min(1.0, off))))
            torch.nn.utils.clip_grad_norm_([self.model.embedding.weight], 1.0)
            for o in self.optimizers:
                o.step()
            self.step += 1
            self.skip += 1
            # Short at first, or the mean would remember the start.
            keep = min(AVERAGE, self.step / (self.step + 10))
            for mean, p in zip(self.mean, self.model.parameters()):
                mean.lerp_(p.detach(), 1 - keep)
            self.tokens += tokens.size
            self.seconds = self.agree(self.seconds + time.time() - began)[0] / self.a.workers
            smooth = loss if smooth is None else 0.95 * smooth + 0.05 * loss
            entry = {"step": self.step, "tokens": self.tokens, "seconds": round(self.seconds), "loss": round(loss, 4)}
            if active:
                entry["active"] = round(active, 4)
            rate = tokens.size / (time.time() - began)
            if self.rank == 0:
                self.report(entry, smooth, rate, scale, tokens.shape[1] - 1)
                log.write(json.dumps(entry) + "\n")
                if time.time() - last_save > self.a.save_every:
                    log.flush()
                    self.save()
                    last_save = time.time()


def work(rank, a):
    if a.workers > 1:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(a.port)}
        dist.init_process_group("gloo", rank=rank, world_size=a.workers)
    Training(a, rank).run()
    if a.workers > 1:
        dist.destroy_process_group()


def main(a):
    if a.rank is not None:
        work(a.rank, a)
    elif a.workers > 1:
        mp.spawn(work, (a,), a.workers)
    else:
        work(0, a)


if __name__ == "__main__":
    main(parse())
