"""The language model of configs/runs/language_model_small.yaml in PyTorch (eager): the same layers, sizes, distributions of
initial values, dropout and schedule. It lacks the z-loss, whose weight is 1e-4.

    python torch_language_model.py VOCABULARY TRAIN VALID THREADS STEPS EVERY OPTIMIZER SEED

Writes a line of JSON for each evaluation. Texts are packed into rows by the rule of mtf-train.
"""

import json
import sys
import time

import numpy as np
import sentencepiece
import torch
import torch.nn.functional as F
from torch import nn

ROW, BATCH = 128, 16  # tokens of a row, rows of a batch
LAYERS, D_MODEL, D_FF, HEADS, D_KV, DROPOUT = 2, 128, 512, 4, 32, 0.1
VOCABULARY = 4096  # 4,000 pieces, filled up
WARMUP, DECAY = 400, 0.2  # steps, part of the run
PAD, EOS = 0, 1


def documents(path):
    """Lists of lines, blank ones between them."""
    lines = []
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            if line.strip():
                lines.append(line)
            elif lines:
                yield lines
                lines = []
    if lines:
        yield lines


def tokenize(path, vocabulary, threads):
    """An array of ids for each document; lines are encoded one by one."""
    processor = sentencepiece.SentencePieceProcessor(model_file=vocabulary)
    return [
        np.array([i for ids in processor.encode(lines, num_threads=threads) for i in ids] + [EOS], np.int32)
        for lines in documents(path)
    ]


def pack(pieces):
    """Numbers of the pieces of each row: longest first, each where it leaves the least room."""
    rows, by_room = [], [[] for _ in range(ROW + 1)]
    for number in sorted(range(len(pieces)), key=lambda i: -len(pieces[i])):
        length = len(pieces[number])
        room = next((room for room in range(length, ROW) if by_room[room]), ROW)
        if room == ROW:
            rows.append([])
            by_room[room].append(rows[-1])
        row = by_room[room].pop()
        row.append(number)
        by_room[room - length].append(row)
    return rows


def make_rows(texts):
    """int64 [3, rows, ROW]: ids, numbers of the pieces from 1 on, positions in them; 0 behind the last."""
    pieces = [text[i : i + ROW] for text in texts for i in range(0, len(text), ROW)]
    rows = pack(pieces)
    result = np.zeros((3, len(rows), ROW), np.int64)
    for r, numbers in enumerate(rows):
        begin = 0
        for segment, number in enumerate(numbers, 1):
            end = begin + len(pieces[number])
            result[0, r, begin:end] = pieces[number]
            result[1, r, begin:end] = segment
            result[2, r, begin:end] = np.arange(end - begin)
            begin = end
    return torch.from_numpy(result)


def normal(*shape, stddev=1.0):
    return nn.Parameter(torch.randn(shape) * stddev)


class Block(nn.Module):
    """Attention and a hidden layer, an RMS norm before each, dropout on what they add."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ParameterList(torch.ones(D_MODEL) for _ in range(2))
        self.q = normal(HEADS * D_KV, D_MODEL, stddev=(D_MODEL * D_KV) ** -0.5)
        self.k, self.v = (normal(HEADS * D_KV, D_MODEL, stddev=D_MODEL**-0.5) for _ in range(2))
        self.o = normal(D_MODEL, HEADS * D_KV, stddev=(HEADS * D_KV) ** -0.5)
        self.wi = nn.Parameter(torch.empty(D_FF, D_MODEL))
        self.wo = nn.Parameter(torch.empty(D_MODEL, D_FF))
        for w in (self.wi, self.wo):
            stddev = w.shape[1] ** -0.5
            nn.init.trunc_normal_(w, std=stddev, a=-2 * stddev, b=2 * stddev)

    def dropout(self, x):
        """One mask for all positions of a row, the last dimension but one."""
        if not self.training:
            return x
        return x * F.dropout(x.new_ones(*x.shape[:-2], 1, x.shape[-1]), DROPOUT)

    def attention(self, x, mask):
        q, k, v = (
            t.unflatten(-1, (HEADS, D_KV)).transpose(1, 2) for t in F.linear(x, torch.cat([self.q, self.k, self.v])).chunk(3, -1)
        )
        if self.training:  # dropout of the weights, equal for all queries
            v = v * F.dropout(v.new_ones(*v.shape[:-1], 1), DROPOUT)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0)
        return F.linear(y.transpose(1, 2).flatten(2), self.o)

    def forward(self, x, mask):
        y = F.rms_norm(x, (D_MODEL,), self.norms[0], 1e-6)
        x = x + self.dropout(self.attention(y, mask))
        y = F.rms_norm(x, (D_MODEL,), self.norms[1], 1e-6)
        hidden = self.dropout(F.relu(F.linear(y, self.wi)))
        return x + self.dropout(F.linear(hidden, self.wo))


class LanguageModel(nn.Module):
    """Embeddings are kept sqrt(D_MODEL) times smaller than in mtf-train, which Adafactor does not notice."""

    def __init__(self):
        super().__init__()
        self.embedding, self.positions = (normal(n, D_MODEL, stddev=D_MODEL**-0.5) for n in (VOCABULARY, ROW))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.Parameter(torch.ones(D_MODEL))

    def forward(self, rows):
        """Sum of -log p of the tokens of rows [3, batch, ROW]."""
        ids, segments, positions = rows
        before = F.pad(ids[:, :-1], (1, 0)).masked_fill(positions == 0, PAD)
        mask = (segments[:, None, :, None] == segments[:, None, None, :]).tril()
        dropout = self.blocks[0].dropout
        x = F.embedding(before, self.embedding) + F.embedding(positions, self.positions)
        x = dropout(x * D_MODEL**0.5)
        for block in self.blocks:
            x = block(x, mask)
        logits = F.linear(dropout(F.rms_norm(x, (D_MODEL,), self.norm, 1e-6)), self.embedding)
        return F.cross_entropy(logits.flatten(0, 1), ids.flatten(), ignore_index=PAD, reduction="sum")


def schedule(step, steps):
    """Flat, then 1/sqrt(step), over the last part of the run times a line down to 0. `step` counts from 0."""
    return max(step, WARMUP) ** -0.5 * min(1.0, (steps - step) / (steps * DECAY))


def make_optimizer(name, parameters):
    """And the factor of its learning rate at a step; Adam's rate is 0.004 at most, after a warm-up."""
    if name == "adam":
        optimizer = torch.optim.Adam(parameters, betas=(0.9, 0.98), eps=1e-9, fused=True)
        return optimizer, lambda step: 0.004 * WARMUP**0.5 * min(1.0, (step + 1) / 100)
    return torch.optim.Adafactor(parameters, eps=(1e-15, 1e-3)), lambda step: 1.0


@torch.no_grad()
def evaluate(model, rows):
    model.eval()
    loss = sum(float(model(rows[:, i : i + BATCH])) for i in range(0, rows.shape[1], BATCH))
    model.train()
    return loss


def batches(rows, generator):
    while True:
        order = torch.randperm(rows.shape[1], generator=generator)
        for i in range(0, len(order) - BATCH + 1, BATCH):
            yield rows[:, order[i : i + BATCH]]


def main():
    vocabulary, train, valid, *numbers, optimizer_name, seed = sys.argv[1:]
    threads, steps, every = map(int, numbers)
    torch.set_num_threads(threads)
    torch.manual_seed(int(seed))
    train_rows, valid_rows = (make_rows(tokenize(path, vocabulary, threads)) for path in (train, valid))
    text_tokens = int((valid_rows[0] != PAD).sum())
    model = LanguageModel()
    optimizer, factor = make_optimizer(optimizer_name, model.parameters())
    source = batches(train_rows, torch.Generator().manual_seed(int(seed)))
    tokens, clocks, spent = 0, (time.monotonic, time.process_time), np.zeros(2)
    for step in range(steps):
        rows = next(source)
        count = int((rows[0] != PAD).sum())
        tokens += count
        begin = np.array([clock() for clock in clocks])
        optimizer.param_groups[0]["lr"] = factor(step) * schedule(step, steps)
        optimizer.zero_grad(set_to_none=True)
        (model(rows) / count).backward()
        optimizer.step()
        if step > 0:
            spent += [clock() for clock in clocks] - begin
        if (step + 1) % every == 0:
            point = {"step": step + 1, "training_tokens": tokens, "loss": evaluate(model, valid_rows), "text_tokens": text_tokens}
            print(json.dumps({**point, "seconds": spent[0], "cpu_seconds": spent[1]}), flush=True)


main()
