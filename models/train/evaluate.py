"""Figures of an exported model on the held-out texts and tasks, as JSON.

    python3 evaluate.py MODEL.gguf PREPARED [--json OUT.json] [--samples]
"""

import argparse
import json
import time
from pathlib import Path

import distant
import measure
import torch
import torch.nn.functional as F
from bpe import ASSISTANT, BOS, EOS, USER
from export import load_gguf
from model import rotate

DISTANT_SIZES, N_DISTANT = (1024, 2048, 4096), 50  # tokens of texts that are asked about far before their end, if a model's context has them
SAMPLES = [
    ("plain", "Once upon a time, there was a little girl named Lily."),
    ("plain", "The old man looked at the sea and said"),
    ("chat", "Tell me a story about a dog and a ball."),
    ("chat", "Hello!"),
    ("chat", "Tom lives in Brimdale. Tom's sister is Anna. Anna has a cat named Mipo.\n\nWhere does Tom live?"),
    ("chat", "Name: Rita Holm\nPhone: 555-0187\nCity: Veldstead\n\nWhat is the phone?"),
    ("plain", 'Screen: Settings\n[1] switch "Dark theme"\n[2] button "Share"\n\nTask: turn on Dark theme\nAction:'),
]


def chat_prompt(tokenizer, text):
    return [BOS, USER, *tokenizer.encode(text), EOS, ASSISTANT]


def samples(model, tokenizer, n=180):
    for kind, text in SAMPLES:
        prompt = chat_prompt(tokenizer, text) if kind == "chat" else [BOS, *tokenizer.encode(text)]
        for temperature in (0.0, 0.7) if "story" in text or "Once" in text else (0.0,):
            answer = tokenizer.decode(measure.generate(model, prompt, n, temperature, seed=1))
            yield {"kind": kind, "prompt": text, "temperature": temperature, "text": answer}


def text_figures(model, tokenizer, text_or_texts, context, batch):
    texts = [text_or_texts] if isinstance(text_or_texts, str) else text_or_texts
    whole = isinstance(text_or_texts, str)
    windows = [w for t in texts for w in measure.windows_of(tokenizer.encode(t), context)[: None if whole else 1]]
    nats, n = measure.text_loss(model, windows, batch)
    characters = sum(len(tokenizer.decode(w)) for w in windows)
    return {
        "tokens": n,
        "nats_per_token": round(nats / n, 4),
        "bits_per_character": round(measure.bits_per_character(nats, characters), 4),
    }


@torch.no_grad()
def activity(model, tokens):
    """Share of neurons whose gate is above zero by layer, over a batch of windows."""
    shares = []
    hooks = []
    for block in model.blocks:
        hooks.append(block.ffn.gate.register_forward_hook(lambda _, __, out: shares.append(float((out > 0).float().mean()))))
    model(tokens)
    for h in hooks:
        h.remove()
    return [round(s, 4) for s in shares]


@torch.no_grad()
def attention_mass(model, tokens, share=0.2):
    """Mean share of the attention that the best `share` of the positions hold, by layer, for the later
    half of the positions (the early ones have hardly any choice)."""
    c = model.config
    masses, inputs = [], []
    hooks = [b.attn.register_forward_pre_hook(lambda _, args: inputs.append(args)) for b in model.blocks]
    model(tokens)
    for h in hooks:
        h.remove()
    n = tokens.shape[1]
    for block, (x, cos, sin, *_) in zip(model.blocks, inputs):
        q = block.attn.q(x).view(*x.shape[:2], c.heads, c.head_dim).transpose(1, 2)
        k = block.attn.k(x).view(*x.shape[:2], c.kv_heads, c.head_dim).transpose(1, 2)
        k = rotate(k, cos, sin).repeat_interleave(c.heads // c.kv_heads, 1)
        scores = rotate(q, cos, sin) @ k.transpose(-1, -2) / c.head_dim**0.5
        mask = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        p = F.softmax(scores.masked_fill(mask, float("-inf")), -1).sort(-1, descending=True).values.cumsum(-1)
        rows = torch.arange(n // 2, n, device=x.device)
        top = ((rows + 1) * share).long().clamp(min=1) - 1
        masses.append(round(float(p[:, :, rows, top].mean()), 4))
    return masses


def evaluate(path, prepared, context=None, batch=4):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model, tokenizer = load_gguf(path)
    model.to(device)
    context = context or model.config.context
    held = prepared / "held_out"
    result = {"file": Path(path).name, "bytes": Path(path).stat().st_size, "parameters": model.n_parameters(),
              "config": model.config.to_dict(), "context_measured": context, "books": {}}  # fmt: skip
    first = None
    for book in sorted((held / "books").glob("*.txt")):
        text = book.read_text("utf-8")
        result["books"][book.name] = text_figures(model, tokenizer, text, context, batch)
        first = first or text
    stories = json.loads((held / "stories.json").read_text("utf-8"))
    result["stories"] = text_figures(model, tokenizer, stories, context, 16)
    examples = [json.loads(x) for x in (held / "tasks.jsonl").read_text("utf-8").splitlines()]
    result["tasks"] = measure.exact_match(model, tokenizer, examples)
    sizes = [n for n in DISTANT_SIZES if n <= context]
    if context >= DISTANT_SIZES[-1]:
        examples = distant.held_out(prepared, tokenizer, sizes, N_DISTANT, "evaluate")
        result["distant"] = measure.distant_figures(model, tokenizer, examples)
    windows = [w for w in measure.windows_of(tokenizer.encode(first), min(1024, context))[:-1]][:4]
    if windows:
        result["gate_above_zero_by_layer"] = activity(model, torch.tensor(windows, device=device))
        result["attention_in_top_fifth_by_layer"] = attention_mass(model, torch.tensor(windows[:2], device=device))
    return result, model, tokenizer


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=Path)
    p.add_argument("prepared", type=Path)
    p.add_argument("--json", type=Path)
    p.add_argument("--samples", action="store_true", help="also generate some texts")
    p.add_argument("--context", type=int, help="window for the texts, default the model's context")
    a = p.parse_args()
    began = time.time()
    result, model, tokenizer = evaluate(a.model, a.prepared, a.context)
    if a.samples:
        result["samples"] = list(samples(model, tokenizer))
    if a.json:
        a.json.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    print(json.dumps(result, indent=2))
    print(f"{time.time() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
