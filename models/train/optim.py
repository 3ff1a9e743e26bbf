"""Muon for the matrices inside the blocks, AdamW for the embedding and the norms.

Muon's step is the momentum made orthogonal by a few Newton-Schulz iterations; it needs about half of the
tokens that AdamW needs here, which counts where a CPU does the training.
"""

import measure
import torch


def orthogonal(m, steps=5):
    """The nearest matrix with singular values about 1. The coefficients trade accuracy for few steps."""
    a, b, c = 3.4445, -4.7750, 2.0315
    # bf16 is enough where it is fast: the result is only about orthogonal anyway.
    x = m.bfloat16() if measure.has_fast_bf16(m.device) else m
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95, weight_decay=0.05):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                m = state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                update = orthogonal(p.grad.lerp(m, group["momentum"]))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update.to(p.dtype), alpha=-group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5)


def make_optimizers(model, muon_lr=0.02, adam_lr=3e-3, weight_decay=0.05):
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embedding" not in n]
    norms = [p for p in model.parameters() if p.ndim < 2]
    embedding = {"params": [model.embedding.weight], "weight_decay": 0.01}
    adam = torch.optim.AdamW(
        [embedding, {"params": norms, "weight_decay": 0.0, "lr": adam_lr / 2}], lr=adam_lr, betas=(0.9, 0.97)
    )
    optimizers = [Muon(matrices, lr=muon_lr, weight_decay=weight_decay), adam]
    for o in optimizers:
        for g in o.param_groups:
            g["peak"] = g["lr"]
    return optimizers
