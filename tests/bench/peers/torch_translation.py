"""The model of comparisons/translation_models.py in eager PyTorch: trains on CORPUS/train.{en,de}.ids until it is killed,
with a line of JSON after every fifth update.

    python torch_translation.py CORPUS [--threads 1] [--tokens 2048]
"""

import argparse
import json
import math
import os

import torch
import torch.nn.functional as F
from torch import nn

PAD, EOS = 0, 1


class Attention(nn.Module):
    """Queries of x, keys and values of the memory: one projection for all that read the same."""

    def __init__(self, size, heads, of_itself):
        super().__init__()
        self.heads, self.of_itself = heads, of_itself
        self.into = nn.ModuleList(
            [nn.Linear(size, 3 * size)] if of_itself else [nn.Linear(size, size), nn.Linear(size, 2 * size)]
        )
        self.out = nn.Linear(size, size)

    def forward(self, x, memory, mask, causal):
        if self.of_itself:
            q, k, v = self.into[0](x).chunk(3, -1)
        else:
            q, (k, v) = self.into[0](x), self.into[1](memory).chunk(2, -1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.out(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Dropout on what each sublayer adds, layer norm after the sum."""

    def __init__(self, size, hidden, heads, dropout, decodes):
        super().__init__()
        self.attention = Attention(size, heads, True)
        self.cross = Attention(size, heads, False) if decodes else None
        self.feed_forward = nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, size))
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(3 if decodes else 2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, memory, mask):
        y = self.attention(x, None, None if self.cross else mask, self.cross is not None)
        x = self.norms[0](x + self.dropout(y))
        if self.cross:
            x = self.norms[1](x + self.dropout(self.cross(x, memory, mask, False)))
        return self.norms[-1](x + self.dropout(self.feed_forward(x)))


class Translator(nn.Module):
    def __init__(self, vocabulary, size=128, hidden=512, heads=4, layers=2, dropout=0.1, longest=256):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size)
        nn.init.normal_(self.embedding.weight, std=size**-0.5)
        angles = torch.arange(longest)[:, None] * torch.exp(torch.arange(0, size, 2) * (-math.log(10000.0) / size))
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], 1))
        self.encoder = nn.ModuleList(Layer(size, hidden, heads, dropout, False) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(size, hidden, heads, dropout, True) for _ in range(layers))
        self.dropout, self.scale = nn.Dropout(dropout), size**0.5

    def embed(self, ids):
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.shape[1]])

    def forward(self, source, target):
        """Loss of the targets' tokens, padding excluded before the logits are made, and their number."""
        mask = (source != PAD)[:, None, None, :]
        memory, x = self.embed(source), self.embed(F.pad(target[:, :-1], (1, 0), value=PAD))
        for layer in self.encoder:
            memory = layer(memory, None, mask)
        for layer in self.decoder:
            x = layer(x, memory, mask)
        counted = target != PAD
        logits = F.linear(x[counted], self.embedding.weight)
        return F.cross_entropy(logits, target[counted], label_smoothing=0.1), int(counted.sum())


def read_ids(path):
    with open(path, encoding="utf-8") as file:
        return [[int(i) for i in line.split()] + [EOS] for line in file]


def padded(rows):
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def batches(source, target, tokens, generator):
    """One epoch in random order: pairs of like length together, about TOKENS target tokens in each."""
    noise = torch.rand(len(source), generator=generator).tolist()
    order = sorted(range(len(source)), key=lambda i: (len(target[i]) + noise[i], len(source[i])))
    result, batch, count = [], [], 0
    for i in order:
        if batch and count + len(target[i]) / 2 > tokens:
            result.append(batch)
            batch, count = [], 0
        batch.append(i)
        count += len(target[i])
    result.append(batch)
    return [result[i] for i in torch.randperm(len(result), generator=generator).tolist()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--vocabulary", type=int, default=4000)
    parser.add_argument("--log-every", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    source, target = (read_ids(os.path.join(options.corpus, f"train.{language}.ids")) for language in ("en", "de"))
    model = Translator(options.vocabulary)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002, betas=(0.9, 0.98), eps=1e-9, fused=True)
    generator = torch.Generator().manual_seed(1)
    updates = seen = 0
    while True:
        for batch in batches(source, target, options.tokens, generator):
            updates += 1
            optimizer.param_groups[0]["lr"] = 0.002 * min(updates / 400, (400 / updates) ** 0.5)
            loss, count = model(padded([source[i] for i in batch]), padded([target[i] for i in batch]))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            seen += count
            if updates % options.log_every == 0:
                print(json.dumps({"step": updates, "tokens": seen, "loss": loss.item()}), flush=True)


main()
