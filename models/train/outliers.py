"""Outliers of the activations that matrices read, layer by layer, and what they do to 8-bit activations."""

from contextlib import contextmanager

import measure
import torch

# What each block's matrices read, and one of the matrices that read it.
INPUTS = {
    "query, key, value": lambda block: block.attn.q,
    "attention output": lambda block: block.attn.out,
    "gate, up": lambda block: block.ffn.gate,
    "down": lambda block: block.ffn.down,
}
BULK = 0.99  # the scale s is what this share of the magnitudes stays below
FEW = 0.03  # the share of channels that the paper looks at


def figures(x):
    """Of activations (tokens, channels): the largest magnitude over s, the share of elements that are
    outliers (beyond 2 s), and how many of these lie in the worst 3 % of the channels (None without any)."""
    x = x.abs()
    flat = x.flatten()
    s = float(flat.kthvalue(max(1, int(BULK * flat.numel()))).values)
    if s == 0:
        return {"ratio": None, "share": 0.0, "in_few": None}
    beyond = (x > 2 * s).sum(0).sort(descending=True).values
    n = int(beyond.sum())
    few = max(1, round(FEW * x.shape[1]))
    return {
        "ratio": float(flat.max()) / s,
        "share": n / flat.numel(),
        "in_few": int(beyond[:few].sum()) / n if n else None,
    }


@torch.no_grad()
def by_layer(model, tokens):
    """For each layer a dictionary: input -> figures."""
    layers = [{} for _ in model.blocks]
    hooks = []
    for layer, block in zip(layers, model.blocks):
        for name, reader in INPUTS.items():

            def look(_, args, layer=layer, name=name):
                layer[name] = figures(args[0].flatten(0, -2).float())

            hooks.append(reader(block).register_forward_pre_hook(look))
    model(tokens)
    for hook in hooks:
        hook.remove()
    return layers


def _readers(model):
    return [x for b in model.blocks for x in (b.attn.q, b.attn.k, b.attn.v, b.attn.out, b.ffn.gate, b.ffn.up, b.ffn.down)]


@contextmanager
def _hooked(model, hook):
    handles = [reader.register_forward_pre_hook(hook) for reader in _readers(model)]
    yield
    for handle in handles:
        handle.remove()


def per_tensor_loss(model, calibration, windows):
    """(nats, tokens) of windows with the input of every block's matrices rounded to 8 bits by one scale for
    each tensor: its largest magnitude over the calibration windows. The weights stay as they are."""
    largest = {}

    def see(reader, args):
        largest[reader] = max(largest.get(reader, 0.0), float(args[0].abs().max()))

    def round_to_8_bits(reader, args):
        step = largest[reader] / 127
        return ((args[0] / step).round().clamp(-127, 127) * step,)

    with _hooked(model, see), torch.no_grad():
        model(calibration)
    with _hooked(model, round_to_8_bits):
        return measure.text_loss(model, windows)
