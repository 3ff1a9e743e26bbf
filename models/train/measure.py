"""What is measured of a model: loss on text in nats and bits per character, exact match on tasks."""

import math
import re
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.nn.functional as F
from bpe import BOS, EOS


def has_fast_bf16(device):
    """Whether the device computes in bf16 by itself; a processor that does not takes forty times as long as in float."""
    if device.type != "cpu":
        return True
    flags = Path("/proc/cpuinfo")
    return flags.exists() and re.search(r"\b(avx512_bf16|amx_bf16|bf16)\b", flags.read_text("utf-8")) is not None


def autocast(device):
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=has_fast_bf16(device))


@contextmanager
def judging(model):
    """Without gradients and dropout; afterwards as before."""
    was = model.training
    model.eval()
    with torch.no_grad():
        yield
    model.train(was)


@contextmanager
def weights(model, others):
    """The model has other weights (a list in the order of its own) for a while."""
    own = [p.detach().clone() for p in model.parameters()]
    with torch.no_grad():
        for p, w in zip(model.parameters(), others):
            p.copy_(w)
    yield
    with torch.no_grad():
        for p, w in zip(model.parameters(), own):
            p.copy_(w)


def text_loss(model, windows, batch=8):
    """Sum of nats and number of predicted tokens over windows (lists of tokens, the first is BOS)."""
    with judging(model):
        return _text_loss(model, windows, batch)


def _text_loss(model, windows, batch):
    device = model.embedding.weight.device
    nats, n = 0.0, 0
    windows = sorted(windows, key=len)
    for i in range(0, len(windows), batch):
        part = windows[i : i + batch]
        size = max(map(len, part))
        rows = torch.tensor([w + [EOS] * (size - len(w)) for w in part], device=device)
        keep = torch.tensor([[j < len(w) for j in range(1, size)] for w in part], device=device)
        logits = model(rows[:, :-1]).float()
        loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), reduction="none")
        nats += float((loss * keep.flatten()).sum())
        n += int(keep.sum())
    return nats, n


def windows_of(tokens, context):
    """A text in windows, each with BOS before it."""
    return [[BOS, *tokens[i : i + context - 1]] for i in range(0, len(tokens), context - 1)]


def bits_per_character(nats, n_characters):
    return nats / math.log(2) / n_characters


def exact_match(model, tokenizer, examples, batch=32):
    """Share of tasks whose answer, the end token included, is what greedy choice gives, by kind.

    All tokens of an answer are judged in one pass: if each is the best after the true ones before it, then
    greedy generation gives the same answer, and otherwise it leaves it at the first that is not.
    """
    device = model.embedding.weight.device
    right, total = defaultdict(int), defaultdict(int)
    rows = []
    for e in examples:
        answer = ("\n" if e["kind"] == "form" else " ") + e["answer"]
        prompt, reply = tokenizer.encode(e["prompt"]), tokenizer.encode(answer) + [EOS]
        rows.append(([BOS, *prompt, *reply], len(prompt) + 1, e["kind"]))
    rows.sort(key=lambda r: len(r[0]))
    for i in range(0, len(rows), batch):
        part = rows[i : i + batch]
        size = max(len(r[0]) for r in part)
        tokens = torch.tensor([r[0] + [EOS] * (size - len(r[0])) for r in part], device=device)
        with judging(model):
            best = model(tokens[:, :-1]).argmax(-1)
        for row, t, b in zip(part, tokens, best):
            start, end = row[1], len(row[0])
            right[row[2]] += int(torch.equal(b[start - 1 : end - 1], t[start:end]))
            total[row[2]] += 1
    return {k: right[k] / total[k] for k in sorted(total)}


def copy_nats(model, tokenizer, examples):
    """Nats per token of the answers, which are long: texts that end as they began."""
    device = model.embedding.weight.device
    sums = []
    for e in examples:
        prompt, reply = tokenizer.encode(e["prompt"]), tokenizer.encode(e["answer"])
        row = torch.tensor([[BOS, *prompt, *reply]], device=device)[:, : model.config.context + 1]
        n = row.shape[1] - 1 - len(prompt)
        with judging(model):
            logits = model(row[:, :-1])[0, -n:].float()
        sums.append(float(F.cross_entropy(logits, row[0, -n:])))
    return sum(sums) / len(sums)


def distant_figures(model, tokenizer, examples):
    """What is found far before, of examples as distant.py makes them, by their size."""
    result = {}
    for size in sorted({e["tokens"] for e in examples}):
        of_size = [e for e in examples if e["tokens"] == size]
        asked = [e for e in of_size if e["kind"] != "copies"]
        result[f"match_{size}"] = {k: round(x, 3) for k, x in exact_match(model, tokenizer, asked, 8).items()}
        copies = [e for e in of_size if e["kind"] == "copies"]
        result[f"copy_nats_{size}"] = round(copy_nats(model, tokenizer, copies), 4)
    return result


@torch.no_grad()
def generate(model, tokens, n=200, temperature=0.0, seed=0):
    """Continues a list of tokens until the end token; returns the new ones."""
    device = model.embedding.weight.device
    random = torch.Generator().manual_seed(seed)
    caches = [{} for _ in model.blocks]
    out, feed, start = [], list(tokens), 0
    while len(out) < n and start + len(feed) <= model.config.context:
        logits = model(torch.tensor([feed], device=device), caches, start)[0, -1].float().cpu()
        start += len(feed)
        if temperature > 0:
            token = int(torch.multinomial(F.softmax(logits / temperature, 0), 1, generator=random))
        else:
            token = int(logits.argmax())
        if token == EOS:
            break
        out.append(token)
        feed = [token]
    return out
