"""The two small models: a Llama decoder, and the same with a gated ReLU feed-forward.

The arithmetic is the one that a GGUF file of architecture "llama" describes: RMSNorm before each half of
a block, rotary positions on neighbouring pairs (dimension 2i with 2i+1), grouped-query attention without
biases, down(act(gate(x)) * up(x)), and a head that shares its weights with the token embedding.
Weights are stored as (outputs, inputs), so a row of a weight is a row in the file.
"""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    vocab: int = 4096
    width: int = 256
    layers: int = 6
    heads: int = 4
    kv_heads: int = 2
    ffn: int = 768
    context: int = 2048
    activation: str = "silu"  # or "relu"
    rope_base: float = 10000.0
    norm_eps: float = 1e-5
    dropout: float = 0.0  # in training only, on what a half of a block adds

    @property
    def head_dim(self):
        return self.width // self.heads

    def to_dict(self):
        return asdict(self)


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        if hasattr(F, "rms_norm"):
            return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype) * self.weight


def rope_tables(config, n_tokens, device=None):
    """cos and sin of position * base^(-2i/d) as (n_tokens, head_dim / 2)."""
    i = torch.arange(0, config.head_dim, 2, dtype=torch.float32, device=device)
    rates = config.rope_base ** (-i / config.head_dim)
    angles = torch.arange(n_tokens, dtype=torch.float32, device=device)[:, None] * rates
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    """x (batch, heads, tokens, head_dim): turns each pair (2i, 2i+1) by its angle."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


def attend(q, k, v):
    """Causal attention over the whole of k and v; a single query sees all. Older PyTorch has no own one."""
    n = q.shape[2]
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=n > 1)
    scores = (q @ k.transpose(-1, -2)).float() / q.shape[-1] ** 0.5
    if n > 1:
        later = torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    return F.softmax(scores, -1).to(v.dtype) @ v


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        kv_width = config.kv_heads * config.head_dim
        self.config = config
        self.q = nn.Linear(config.width, config.width, bias=False)
        self.k = nn.Linear(config.width, kv_width, bias=False)
        self.v = nn.Linear(config.width, kv_width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x, cos, sin, cache=None):
        batch, n_tokens, width = x.shape
        c = self.config
        q = self.q(x).view(batch, n_tokens, c.heads, c.head_dim).transpose(1, 2)
        k = self.k(x).view(batch, n_tokens, c.kv_heads, c.head_dim).transpose(1, 2)
        v = self.v(x).view(batch, n_tokens, c.kv_heads, c.head_dim).transpose(1, 2)
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        if cache is not None:
            if "k" in cache:
                k, v = torch.cat((cache["k"], k), 2), torch.cat((cache["v"], v), 2)
            cache["k"], cache["v"] = k, v
        group = c.heads // c.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        # A cached call continues with one token at a time, or starts with the whole prompt.
        y = attend(q, k, v)
        return self.out(y.transpose(1, 2).reshape(batch, n_tokens, width))


class FeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.relu = config.activation == "relu"
        self.gate = nn.Linear(config.width, config.ffn, bias=False)
        self.up = nn.Linear(config.width, config.ffn, bias=False)
        self.down = nn.Linear(config.ffn, config.width, bias=False)
        self.watch = False
        self.active = None  # share of neurons with gate > 0, when watched
        self.penalty = None  # a smooth stand-in for that share

    def forward(self, x):
        gate = self.gate(x)
        if not self.relu:
            return self.down(F.silu(gate) * self.up(x))
        if self.watch:
            # Counting has no gradient. A sigmoid of the gate over its own spread has one, largest at
            # the neurons that could go either way, and cannot be cheated by scaling the gate down.
            sample = gate[:, ::4].float()
            spread = sample.detach().std() + 1e-6
            self.penalty = torch.sigmoid(2.0 * sample / spread).mean()
            self.active = (sample.detach() > 0).float().mean()
        return self.down(F.relu(gate) * self.up(x))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attn_norm = RMSNorm(config.width, config.norm_eps)
        self.attn = Attention(config)
        self.ffn_norm = RMSNorm(config.width, config.norm_eps)
        self.ffn = FeedForward(config)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x, cos, sin, cache=None):
        x = x + self.drop(self.attn(self.attn_norm(x), cos, sin, cache))
        return x + self.drop(self.ffn(self.ffn_norm(x)))


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.width, config.norm_eps)
        cos, sin = rope_tables(config, config.context)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                nn.init.normal_(p, std=0.02 if "embedding" in name else p.shape[1] ** -0.5 / 2)
            if name.endswith(("out.weight", "down.weight")):
                nn.init.zeros_(p)

    def hidden(self, tokens, caches=None, start=0):
        n_tokens = tokens.shape[1]
        cos, sin = self.cos[start : start + n_tokens], self.sin[start : start + n_tokens]
        x = self.embedding(tokens)
        for i, block in enumerate(self.blocks):
            x = block(x, cos, sin, None if caches is None else caches[i])
        return self.norm(x)

    def forward(self, tokens, caches=None, start=0):
        return F.linear(self.hidden(tokens, caches, start), self.embedding.weight)

    def n_parameters(self):
        return sum(p.numel() for p in self.parameters())
