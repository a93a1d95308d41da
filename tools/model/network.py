# SPDX-License-Identifier: MIT
"""The network: Llama's architecture in PyTorch, for training only.

Rotary positions turn neighbouring pairs, which is what a GGUF of architecture `llama` means, so the
export copies the weights as they are. Input and output embeddings are one tensor.
"""
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Shape:
    vocab: int = 1024
    context: int = 1024
    width: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    ffn: int = 384
    rope_base: float = 10000.0
    norm_epsilon: float = 1e-5

    @property
    def head(self) -> int:
        return self.width // self.heads


def rotation(shape: Shape, length: int) -> tuple:
    """cos, sin: [length][head / 2]."""
    powers = torch.arange(0, shape.head, 2) / shape.head
    angles = torch.arange(length)[:, None] / shape.rope_base ** powers[None]
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    """x: [batch][heads][length][head]."""
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1)
    return turned.flatten(-2).type_as(x)


class Block(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        width, kv = shape.width, shape.kv_heads * shape.head
        self.attn_norm = nn.RMSNorm(width, shape.norm_epsilon)
        self.attn_q = nn.Linear(width, width, bias=False)
        self.attn_k = nn.Linear(width, kv, bias=False)
        self.attn_v = nn.Linear(width, kv, bias=False)
        self.attn_output = nn.Linear(width, width, bias=False)
        self.ffn_norm = nn.RMSNorm(width, shape.norm_epsilon)
        self.ffn_gate = nn.Linear(width, shape.ffn, bias=False)
        self.ffn_up = nn.Linear(width, shape.ffn, bias=False)
        self.ffn_down = nn.Linear(shape.ffn, width, bias=False)

    def attend(self, x, cos, sin):
        shape = self.shape
        q, k, v = (linear(x).unflatten(-1, (-1, shape.head)).transpose(1, 2)
                   for linear in (self.attn_q, self.attn_k, self.attn_v))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (t.repeat_interleave(shape.heads // shape.kv_heads, 1) for t in (k, v))
        # By hand: on a CPU, and for transcripts this short, the fused one is slow backwards.
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.transpose(-1, -2) * shape.head ** -0.5).masked_fill(later, -1e4)
        out = scores.softmax(-1).type_as(v) @ v
        return self.attn_output(out.transpose(1, 2).flatten(-2))

    def forward(self, x, cos, sin):
        x = x + self.attend(self.attn_norm(x), cos, sin)
        y = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(y)) * self.ffn_up(y))


class Network(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(shape.vocab, shape.width)
        self.blk = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.output_norm = nn.RMSNorm(shape.width, shape.norm_epsilon)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=self.spread(name, parameter))

    def spread(self, name: str, parameter) -> float:
        """Scores and outputs start at unit size: flat attention learns nothing for a long time."""
        if name.startswith("token_embd"):
            return 0.05
        deep = name.endswith(("attn_output.weight", "ffn_down.weight"))
        return (parameter.shape[1] * (2 * self.shape.layers if deep else 1)) ** -0.5

    def hidden(self, ids):
        """ids: [batch][length] -> [batch][length][width]."""
        x = self.token_embd(ids)
        cos, sin = rotation(self.shape, ids.shape[1])
        for block in self.blk:
            x = block(x, cos, sin)
        return self.output_norm(x)

    def logits(self, hidden):
        return F.linear(hidden, self.token_embd.weight)

    def loss(self, ids, targets):
        """Mean over the positions whose target is not negative: those where the model speaks."""
        said = targets >= 0
        return F.cross_entropy(self.logits(self.hidden(ids)[said]).float(), targets[said])
