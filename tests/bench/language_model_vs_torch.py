"""language_model_small.yaml by mtf-train and by PyTorch: perplexity per word at equal numbers of tokens.

    python tests/bench/language_model_vs_torch.py [build/bin/mtf-train] [--steps 2000] [--every 500]
        [--threads 2] [--valid-lines N] [--optimizer adafactor | adam] [--seed 1] [--data corpora/english]
        [--work DIR]

The programs train one after the other with equal threads. The model in PyTorch has the same layers, sizes,
distributions of initial weights and dropout. It reads the same text in pieces of the same vocabulary, packed
into rows by the same rule, and has the same schedule and, unless --optimizer says adam, the Adafactor of
torch.optim. The order of rows and random numbers are its own. It lacks the z-loss, whose weight is 1e-4.

Perplexity per word is exp(-log p / words): p is the probability of all of DATA/valid.txt, or of its first N
lines, ends of documents included; words are what white space separates. Both programs read it in pieces of
128 tokens that know nothing of those before them. Seconds, of the clock and of the CPUs, are those of
training alone: without start, first step and evaluation. Where other programs run, threads of PyTorch spin
while they wait for each other: look at CPU seconds with --threads 1 or OMP_WAIT_POLICY=PASSIVE. Exits with 1
when the last perplexity of mtf-train is over 5 % above PyTorch's.

Needs torch, numpy and sentencepiece from PyPI, and corpora/english, which tools/corpora/build.sh makes. DIR
(default build/language_model_vs_torch) keeps the vocabulary and the tokens of mtf-train for the next call.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass

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
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Point:
    """What a program has reached by an evaluation; seconds count from the end of its first step."""

    step: int
    training_tokens: int
    loss: float  # -log p of the whole text
    text_tokens: int
    seconds: float
    cpu_seconds: float


def cpu_seconds(process):
    """Of a child that may have ended but was not waited for."""
    with open(f"/proc/{process}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


class JsonLines:
    """The lines that a file has got since the last call."""

    def __init__(self, path):
        self.path, self.position = path, 0

    def __call__(self):
        if not os.path.exists(self.path):
            return []
        with open(self.path, encoding="utf-8") as file:
            file.seek(self.position)
            lines = file.readlines()
            self.position = file.tell()
        return [json.loads(line) for line in lines]


def follow(process, run):
    """Until it ends: lines of progress by step; evaluations, each with the CPU seconds of training so far."""
    metrics, evaluations = JsonLines(f"{run}/metrics.jsonl"), JsonLines(f"{run}/evaluate.jsonl")
    progress, evaluated = {}, []
    samples, begin, spent = [], 0.0, 0.0  # (time, CPU seconds) since the last evaluation
    ended = False
    while not ended:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        samples.append((time.monotonic(), cpu_seconds(process.pid)))
        for line in evaluations():
            now, cpu = samples[-1]
            spent += next(c for t, c in samples if t >= now - line["seconds"]) - begin
            samples, begin = [(now, cpu)], cpu
            evaluated.append((line, spent))
        for line in metrics():
            progress[line["step"]] = line
            if line["step"] == 1:
                begin = samples[-1][1]
        time.sleep(0.01)
    process.wait()
    return progress, evaluated


def points_of(progress, evaluated):
    points = []
    for line, spent in evaluated:
        step, tokens = line["step"], line["tokens"]
        seconds = progress[step]["time"] - progress[1]["time"]
        points.append(Point(step, progress[step]["tokens"], line["loss"] * tokens, tokens, seconds, spent))
    return points


def run_ours(options, valid, vocabulary):
    """Trains, and copies the vocabulary to VOCABULARY when it is not there yet."""
    run = f"{options.work}/run"
    shutil.rmtree(run, ignore_errors=True)
    command = [
        options.mtf_train, "configs/runs/language_model_small.yaml", f"vars.data={options.data}",
        f"data.cache={options.work}/cache", f"evaluate.datasets.dev.path={valid}", f"run.model_dir={run}",
        f"run.threads={options.threads}", f"run.seed={options.seed}", f"train.steps={options.steps}",
        f"train.log_every={options.every}", f"evaluate.every={options.every}", "checkpoint.every=0",
    ]  # fmt: skip
    if os.path.exists(vocabulary):
        command.append(f"data.vocabulary.path={vocabulary}")
    log = f"{options.work}/mtf-train.log"
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    progress, evaluated = follow(process, run)
    if process.returncode != 0:
        raise SystemExit(f"mtf-train failed: {log}")
    if not os.path.exists(vocabulary):
        shutil.copy(f"{run}/vocabulary.model", vocabulary)
    return points_of(progress, evaluated)


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
            t.unflatten(-1, (HEADS, D_KV)).transpose(1, 2)
            for t in F.linear(x, torch.cat([self.q, self.k, self.v])).chunk(3, -1)
        )
        if self.training:  # of the weights, equal for all queries
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


def run_torch(options, valid, vocabulary):
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    train_rows = make_rows(tokenize(f"{options.data}/train.txt", vocabulary, options.threads))
    valid_rows = make_rows(tokenize(valid, vocabulary, options.threads))
    text_tokens = int((valid_rows[0] != PAD).sum())
    model = LanguageModel()
    optimizer, factor = make_optimizer(options.optimizer, model.parameters())
    source = batches(train_rows, torch.Generator().manual_seed(options.seed))
    tokens, points = 0, []
    clocks, spent = (time.monotonic, time.process_time), np.zeros(2)
    for step in range(options.steps):
        rows = next(source)
        count = int((rows[0] != PAD).sum())
        tokens += count
        begin = np.array([clock() for clock in clocks])
        optimizer.param_groups[0]["lr"] = factor(step) * schedule(step, options.steps)
        optimizer.zero_grad(set_to_none=True)
        (model(rows) / count).backward()
        optimizer.step()
        if step > 0:
            spent += [clock() for clock in clocks] - begin
        if (step + 1) % options.every == 0:
            loss = evaluate(model, valid_rows)
            points.append(Point(step + 1, tokens, loss, text_tokens, *spent.tolist()))
    return points


def write_valid(options):
    """The first lines of the text, and the number of their words."""
    path = f"{options.work}/valid.txt"
    with open(f"{options.data}/valid.txt", encoding="utf-8", newline="\n") as source:
        lines = source.readlines()[: options.valid_lines]
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)
    return path, sum(len(line.split()) for line in lines)


def read_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mtf_train", nargs="?", default="build/bin/mtf-train")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--every", type=int, default=500, help="steps between evaluations; divides --steps")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--valid-lines", type=int)
    parser.add_argument("--optimizer", choices=["adafactor", "adam"], default="adafactor", help="of PyTorch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", default="corpora/english")
    parser.add_argument("--work", default="build/language_model_vs_torch")
    options = parser.parse_args()
    if options.every < 2 or options.steps % options.every != 0:
        parser.error("--every must be at least 2 and divide --steps")
    options.data, options.work = map(os.path.abspath, (options.data, options.work))
    options.mtf_train = os.path.abspath(options.mtf_train)
    return options


def print_table(ours, theirs, words):
    print(f"{words:,} words, {ours[0].text_tokens:,} tokens; PyTorch {torch.__version__}")
    columns = ["training tokens", "perplexity per word", "seconds", "CPU seconds"]
    print(" " * 6 + "".join(f"{column:>22}" for column in columns))
    print(f"{'step':>6}" + f"{'mtf-train':>12}{'PyTorch':>10}" * len(columns))
    for a, b in zip(ours, theirs, strict=True):
        tokens = f"{a.training_tokens:12,}{b.training_tokens:10,}"
        perplexity = f"{math.exp(a.loss / words):12.1f}{math.exp(b.loss / words):10.1f}"
        seconds = f"{a.seconds:12.1f}{b.seconds:10.1f}{a.cpu_seconds:12.1f}{b.cpu_seconds:10.1f}"
        print(f"{a.step:6}{tokens}{perplexity}{seconds}")


def main():
    options = read_options()
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    os.makedirs(options.work, exist_ok=True)
    valid, words = write_valid(options)
    vocabulary = f"{options.work}/vocabulary.model"
    ours = run_ours(options, valid, vocabulary)
    theirs = run_torch(options, valid, vocabulary)
    if ours[0].text_tokens != theirs[0].text_tokens:
        raise SystemExit(
            f"mtf-train reads {ours[0].text_tokens} tokens of {valid}, PyTorch {theirs[0].text_tokens}"
        )
    print_table(ours, theirs, words)
    ratio = math.exp((ours[-1].loss - theirs[-1].loss) / words)
    print(f"last perplexity of mtf-train / PyTorch {ratio:.3f}")
    sys.exit(0 if ratio < 1.05 else 1)


main()
