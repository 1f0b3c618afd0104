"""Training of a translation model, English to German, by mtf-train, Marian (pymarian) and PyTorch (eager), float32, in turns.

comparisons/translation_models.py says what the model is; dropout is 0.1 on embeddings and on what sublayers add. Vocabulary
and pairs are equal. Batches have 2,048 target tokens on average and are made in each program's own way: rows of 128 packed
tokens, or pairs of like length. Counted are target tokens without padding, with ends of sequence. With several threads Marian
trains synchronously, its batch cut in parts, and (async) each thread on batches of its own; PyTorch's threads wait as they do
by themselves, in a loop, and (passive) asleep, which costs time and saves CPU time. What differs: mtf-train draws dropout
once for all tokens of a row, and its matrix products have no biases. Ratios are mtf-train / the program, of rates, medians of
the rounds' own.
"""

import os
import re
import statistics

from comparisons import translation_models
from comparisons.translation_corpus import prepare
from comparisons.translation_models import LOG_EVERY, ONE_THREAD_LIBRARIES
from harness.trainers import Trainer, take_turns

SUMMARY = "training on real text: Marian, PyTorch"
PROGRAMS = ("mtf-train", "mtf-vocab")
PEERS = ("marian", "torch")
ALONE = True
QUICK = {"rounds": 1, "seconds": 1}


def add_arguments(parser):
    parser.add_argument(
        "--data", default="corpora/ende", help="directory of train.en-de.* and test.en-de.*, see tools/corpora/build.sh"
    )
    parser.add_argument("--tokens", type=int, default=2048, help="target tokens of a batch")
    parser.set_defaults(seconds=30)


def read_marian(line):
    found = re.search(r"Up\. ([\d,]+) .* after ([\d,]+) : Time", line)
    return tuple(int(number.replace(",", "")) for number in found.groups()) if found else None


def starts(session, corpus, vocabulary, threads):
    """Functions that start the trainers, ours first."""
    options = session.options

    def ours():
        directory = session.fresh("run")
        config = translation_models.write_our_config(session, corpus, "train.yaml", options.tokens)
        command = [options.mtf_train, config, f"run.model_dir={directory}", f"run.threads={threads}"]
        return Trainer("mtf-train", command, f"{directory}/metrics.jsonl", f"{directory}.log", threads)

    def marian(name, *more):
        directory = session.fresh("marian")
        os.makedirs(directory)
        config = translation_models.write_marian_config(
            session, corpus, vocabulary, f"{directory}/train.yaml", f"{directory}/model.npz", options.tokens
        )
        command = [
            translation_models.marian(),
            "train",
            "-c",
            config,
            f"--cpu-threads={threads}",
            f"--disp-freq={LOG_EVERY}u",
            *more,
        ]
        return Trainer(name, command, f"{directory}.log", f"{directory}.log", threads, ONE_THREAD_LIBRARIES, read_marian)

    def torch(name, **variables):
        log = session.fresh("torch") + ".log"
        command = session.peer(
            "peers", "torch_translation.py", corpus.directory, f"--threads={threads}", f"--tokens={options.tokens}"
        )
        return Trainer(name, command, log, log, threads, {**variables, "OMP_NUM_THREADS": str(threads)})

    yield ours
    if "marian" in options.peers:
        yield lambda: marian("Marian", "--sync-sgd")
        if threads > 1:
            yield lambda: marian("Marian, async")
    if "torch" in options.peers:
        yield lambda: torch("PyTorch")
        if threads > 1:
            yield lambda: torch("PyTorch, passive", OMP_WAIT_POLICY="PASSIVE")


def rates(figures, what):
    """Target tokens of a second, by turn."""
    return [1000 * tokens / time for tokens, time in zip(figures.tokens, getattr(figures, what), strict=True)]


def run(session):
    options = session.options
    corpus, vocabulary = prepare(session, 1)
    title = f"{corpus.pairs:,} pairs, {options.rounds} rounds of {options.seconds:g} s in turns"
    columns = ["target tokens/s", "ratio", "per CPU second", "ratio", "peak memory", "target tokens of an update"]
    table = session.table(title, "program", "threads", *columns)
    for threads in options.threads:
        figures = take_turns(starts(session, corpus, vocabulary, threads), options.rounds, options.seconds)
        ours = figures[0]
        for each in figures:
            cells = []
            for what in ("wall", "cpu"):
                theirs = rates(each, what)
                ratio = statistics.median(a / b for a, b in zip(rates(ours, what), theirs, strict=True))
                cells += [f"{statistics.median(theirs):,.0f}", "" if each is ours else f"{ratio:.2f}"]
            table.row(each.name, threads, *cells, f"{each.peak / 1e6:,.0f} MB", f"{each.median('tokens'):,.0f}")
