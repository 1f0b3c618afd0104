"""configs/runs/language_model_small.yaml by mtf-train and by PyTorch (eager): perplexity per word at equal numbers of tokens.

The programs train one after the other with equal threads. peers/torch_language_model.py says what differs. PyTorch reads the
same text in pieces of the same vocabulary and, unless --optimizer says adam, has the Adafactor of torch.optim. The order of
rows and random numbers are its own.

Perplexity per word is exp(-log p / words): p is the probability of all of DATA/valid.txt, or of its first N lines, ends of
documents included; words are what white space separates. Both programs read it in pieces of 128 tokens that know nothing of
those before them. Seconds, of the clock and of the CPUs, are those of training alone: without start, first step and
evaluation. The comparison holds if the last perplexity of mtf-train is at most 5 % above PyTorch's.
"""

import json
import math
import os
import shutil
import subprocess
import time
from dataclasses import dataclass

from harness.commands import first_cores, passive_threads

SUMMARY = "perplexity at equal numbers of tokens: PyTorch"
PROGRAMS = ("mtf-train",)
PEERS = ("torch",)
ALONE = False
QUICK = {"steps": 6, "every": 3, "valid_lines": 50}
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def add_arguments(parser):
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--every", type=int, default=500, help="steps between evaluations; at least 2, divides --steps")
    parser.add_argument("--valid-lines", type=int, metavar="N")
    parser.add_argument("--optimizer", choices=["adafactor", "adam"], default="adafactor", help="of PyTorch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=os.path.abspath, default="corpora/english", help="made by tools/corpora/build.sh english")


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
    """The processor time of a child that may have ended but was not waited for."""
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


def run_ours(session, threads, valid, vocabulary):
    """Trains, and copies the vocabulary to VOCABULARY when it is not there yet."""
    options, directory = session.options, session.fresh("run")
    command = [
        options.mtf_train, session.config("runs/language_model_small.yaml"), f"vars.data={options.data}",
        f"data.cache={session.path('cache')}", f"evaluate.datasets.dev.path={valid}", f"run.model_dir={directory}",
        f"run.threads={threads}", f"run.seed={options.seed}", f"train.steps={options.steps}",
        f"train.log_every={options.every}", f"evaluate.every={options.every}", "checkpoint.every=0",
    ]  # fmt: skip
    if os.path.exists(vocabulary):
        command.append(f"data.vocabulary.path={vocabulary}")
    log = f"{directory}.log"
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, preexec_fn=first_cores(threads))
    progress, evaluated = follow(process, directory)
    if process.returncode != 0:
        with open(log, encoding="utf-8") as file:
            raise SystemExit(f"mtf-train failed:\n{file.read()[-3000:]}")
    if not os.path.exists(vocabulary):
        shutil.copy(f"{directory}/vocabulary.model", vocabulary)
    return points_of(progress, evaluated)


def run_torch(session, threads, valid, vocabulary):
    options = session.options
    command = session.peer(
        "peers", "torch_language_model.py", vocabulary, f"{options.data}/train.txt", valid, threads, options.steps, options.every,
        options.optimizer, options.seed,
    )  # fmt: skip
    environment = {**os.environ, **passive_threads(threads)}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env=environment, preexec_fn=first_cores(threads)
    )
    return [Point(**json.loads(line)) for line in done.stdout.splitlines()]


def write_valid(session):
    """The first lines of the text, and the number of their words."""
    with open(f"{session.options.data}/valid.txt", encoding="utf-8", newline="\n") as source:
        lines = source.readlines()[: session.options.valid_lines]
    return session.write("valid.txt", "".join(lines)), sum(len(line.split()) for line in lines)


def run(session):
    options = session.options
    valid, words = write_valid(session)
    columns = ["perplexity per word", "seconds", "CPU seconds"]
    for threads in options.threads:
        vocabulary = session.path("vocabulary.model")
        ours = run_ours(session, threads, valid, vocabulary)
        theirs = run_torch(session, threads, valid, vocabulary)
        if ours[0].text_tokens != theirs[0].text_tokens:
            raise SystemExit(f"mtf-train reads {ours[0].text_tokens} tokens of {valid}, PyTorch {theirs[0].text_tokens}")
        title = f"{words:,} words, {ours[0].text_tokens:,} tokens, {threads} threads"
        table = session.table(
            title, "step", *(f"{name}, {what}" for what in ["tokens", *columns] for name in ("mtf-train", "PyTorch"))
        )
        for a, b in zip(ours, theirs, strict=True):
            cells = [f"{point.training_tokens:,}" for point in (a, b)]
            cells += [f"{math.exp(point.loss / words):,.1f}" for point in (a, b)]
            cells += [f"{getattr(point, what):.1f}" for what in ("seconds", "cpu_seconds") for point in (a, b)]
            table.row(a.step, *cells)
        ratio = math.exp((ours[-1].loss - theirs[-1].loss) / words)
        session.check(options.quick or ratio < 1.05, f"the last perplexity of mtf-train is {ratio:.3f} times PyTorch's")
