"""Trainers that take turns: each runs alone for some seconds, and is stopped between its turns."""

import dataclasses
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

from corpus import VOCABULARY
from table import print_table

HERE = os.path.dirname(os.path.abspath(__file__))
ROW = 128  # tokens of a row of mtf-train
LOG_EVERY = 5  # updates
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")

OURS = """\
include: {configs}/models/bi_base.yaml
vars: {{num_layers: 2, d_model: 128, d_ff: 512, num_heads: 4, d_kv: 32, dropout: 0, max_length: {row}}}
data:
  train: {{type: parallel, inputs: {corpus}/train.en, targets: {corpus}/train.de}}
  vocabulary: {{type: sentencepiece, size: {vocabulary}, path: {corpus}/vocabulary.model}}
  cache: {corpus}/cache
model:
  positions: sinusoid
  label_smoothing: 0.1
  z_loss: 0
  vocab_divisor: 1
  embedding: {{type: vocab, scale_like_classifier: true}}
  sublayers:
    initial: [{{dropout: {{rate: {dropout}, share: [length]}}}}]
    per_layer: [call_layer, {{dropout: {{rate: {dropout}, share: [length]}}}}, residual, layer_norm]
    final: []
optimizer: {{type: adam, beta2: 0.98, epsilon: 1.0e-9, clip_norm: 1}}
learning_rate:
  - 0.04
  - {{type: truncated_rsqrt, warmup_steps: 400}}
  - {{type: linear_warmup, steps_or_fraction: 400}}
train: {{steps: 1000000, batch_size: {rows}, log_every: {log_every}}}
evaluate: null
checkpoint: {{every: 0}}
"""

MARIAN = {
    "type": "transformer", "enc-depth": 2, "dec-depth": 2, "dim-emb": 128, "transformer-heads": 4,
    "transformer-dim-ffn": 512, "transformer-ffn-activation": "relu", "tied-embeddings-all": "true",
    "transformer-preprocess": '""', "transformer-postprocess": "dan", "transformer-postprocess-top": '""',
    "transformer-dropout": 0.1, "label-smoothing": 0.1, "disp-label-counts": "true", "optimizer": "adam",
    "optimizer-params": "[0.9, 0.98, 1e-9]", "learn-rate": 0.002, "lr-warmup": 400, "lr-decay-inv-sqrt": 400,
    "clip-norm": 1, "max-length": 200, "overwrite": "true", "seed": 1,
}  # fmt: skip


def one_thread_libraries():
    """Marian's threads are its own; those of MKL and OpenMP would come on top."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def peak_megabytes(process):
    """Of resident memory, so far; of a process that has ended, None."""
    try:
        with open(f"/proc/{process}/status", encoding="utf-8") as file:
            found = re.search(r"VmHWM:\s+(\d+)", file.read())
    except FileNotFoundError:
        return None
    return int(found.group(1)) / 1024 if found else None


def write_our_config(corpus, path, tokens, dropout=0.1):
    configs = os.path.abspath(os.path.join(HERE, "../../../configs"))
    values = {"configs": configs, "corpus": corpus.directory, "vocabulary": VOCABULARY, "row": ROW}
    values.update(rows=tokens // ROW, dropout=dropout, log_every=LOG_EVERY)
    with open(path, "w", encoding="utf-8") as file:
        file.write(OURS.format(**values))


def write_marian_config(corpus, vocabulary, path, model, tokens):
    """mini-batch-words counts the source's tokens, so that the targets' mean is TOKENS."""
    options = {
        **MARIAN, "model": model, "train-sets": f"[{corpus.path('train.en')}, {corpus.path('train.de')}]",
        "vocabs": f"[{vocabulary.marian_path}, {vocabulary.marian_path}]", "tempdir": corpus.directory,
        "mini-batch-words": round(tokens * corpus.source_tokens / corpus.target_tokens),
    }  # fmt: skip
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{key}: {value}\n" for key, value in options.items())


@dataclasses.dataclass
class Mark:
    """What a process has done when it wrote a line of progress."""

    seconds: float
    cpu_seconds: float
    updates: int
    tokens: int


class Trainer:
    """A process that reports updates and target tokens in a file; `read` has them from a line, or None."""

    def __init__(self, name, command, log, read, environment=None, output=None):
        self.name, self.log, self.read = name, log, read
        self.output = output or log
        with open(self.output, "w", encoding="utf-8") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
        self.position, self.rest = 0, ""
        self.turns = []  # (first mark, last mark)

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def progress(self):
        """The newest (updates, tokens) since the last call, or None."""
        if not os.path.exists(self.log):
            return None
        with open(self.log, encoding="utf-8", errors="replace") as file:
            file.seek(self.position)
            text = file.read()
            self.position = file.tell()
        *lines, self.rest = (self.rest + text).split("\n")
        found = [progress for progress in map(self.read, lines) if progress]
        return found[-1] if found else None

    def mark(self, limit=120):
        """Waits for a line of progress."""
        begin = time.monotonic()
        while True:
            found = self.progress()
            if found:
                return Mark(time.monotonic(), self.cpu_seconds(), *found)
            if self.process.poll() is not None or time.monotonic() - begin > limit:
                with open(self.output, encoding="utf-8", errors="replace") as file:
                    sys.stderr.write(file.read()[-3000:])
                raise SystemExit(f"{self.name} has written no progress")
            time.sleep(0.01)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def turn(self, seconds):
        """Runs alone, for SECONDS from one line of progress to another."""
        self.progress()
        self.process.send_signal(signal.SIGCONT)
        first = last = self.mark()
        while last.seconds - first.seconds < seconds:
            last = self.mark()
        self.pause()
        self.turns.append((first, last))

    def end(self):
        self.process.kill()
        self.process.wait()

    def rates(self):
        """Target tokens per second and per CPU second, of each turn."""
        pairs = [
            (last.tokens - first.tokens, last.seconds - first.seconds, last.cpu_seconds - first.cpu_seconds)
            for first, last in self.turns
        ]
        return [tokens / seconds for tokens, seconds, _ in pairs], [tokens / cpu for tokens, _, cpu in pairs]

    def tokens_per_update(self):
        return statistics.mean(
            (last.tokens - first.tokens) / (last.updates - first.updates) for first, last in self.turns
        )


def read_ours(line):
    try:
        values = json.loads(line)
    except ValueError:
        return None
    return values["step"], values["tokens"]


def read_marian(line):
    found = re.search(r"Up\. ([\d,]+) .* after ([\d,]+) : Time", line)
    return tuple(int(number.replace(",", "")) for number in found.groups()) if found else None


def read_torch(line):
    fields = line.split()
    return (int(fields[0]), int(fields[1])) if len(fields) == 3 and fields[0].isdigit() else None


def starters(corpus, vocabulary, work, mtf_train, pymarian, threads, tokens):
    """Functions that start the trainers, ours first."""

    def stem(name):
        return os.path.join(work, re.sub(r"\W+", "_", name.lower()))

    def ours():
        run, config = os.path.join(work, "run"), os.path.join(work, "train.yaml")
        shutil.rmtree(run, ignore_errors=True)
        write_our_config(corpus, config, tokens)
        command = [mtf_train, config, f"run.model_dir={run}", f"run.threads={threads}"]
        output = os.path.join(work, "mtf_train.log")
        return Trainer("mtf-train", command, os.path.join(run, "metrics.jsonl"), read_ours, output=output)

    def marian(name, *options):
        model, config = stem(name) + ".npz", stem(name) + ".yaml"
        for suffix in ("", ".yml", ".progress.yml", ".optimizer.npz"):
            if os.path.exists(model + suffix):
                os.remove(model + suffix)
        write_marian_config(corpus, vocabulary, config, model, tokens)
        command = [pymarian, "train", "-c", config, f"--cpu-threads={threads}", f"--disp-freq={LOG_EVERY}u"]
        command += options
        return Trainer(name, command, stem(name) + ".log", read_marian, one_thread_libraries())

    def torch(name, environment=None):
        command = [sys.executable, os.path.join(HERE, "torch_trainer.py"), corpus.directory]
        command += [f"--threads={threads}", f"--tokens={tokens}", f"--log-every={LOG_EVERY}"]
        return Trainer(name, command, stem(name) + ".log", read_torch, environment)

    result = [ours, lambda: marian("Marian", "--sync-sgd"), lambda: torch("PyTorch")]
    if threads > 1:
        result.append(lambda: marian("Marian, async"))
        result.append(lambda: torch("PyTorch, passive", {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}))
    return result


def compare(start, rounds, seconds):
    """Starts all, one after the other; then ROUNDS of turns, in another order each time."""
    trainers = []
    try:
        for begin in start:
            trainers.append(begin())
            trainers[-1].mark()
            trainers[-1].mark()
            trainers[-1].pause()
        for number in range(rounds):
            shift = number % len(trainers)
            for trainer in trainers[shift:] + trainers[:shift]:
                trainer.turn(seconds)
        peaks = [peak_megabytes(trainer.process.pid) for trainer in trainers]
    finally:
        for trainer in trainers:
            trainer.end()
    return trainers, peaks


def print_rates(trainers, peaks):
    """Medians over the turns; ratios are ours to theirs, of rates the median of the rounds' own."""
    our_wall, our_cpu = trainers[0].rates()
    rows = [["", "tokens/s", "ratio", "tokens/CPU s", "ratio", "peak MB", "ratio", "tokens/update"]]
    for trainer, peak in zip(trainers, peaks):
        row = [trainer.name]
        for ours, theirs in zip((our_wall, our_cpu), trainer.rates()):
            row.append(f"{statistics.median(theirs):.0f}")
            row.append(f"{statistics.median(a / b for a, b in zip(ours, theirs)):.2f}")
        rows.append([*row, f"{peak:.0f}", f"{peaks[0] / peak:.2f}", f"{trainer.tokens_per_update():.0f}"])
    print_table(rows)
