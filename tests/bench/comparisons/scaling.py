"""What a token costs in training the language model of `bench.py training` (`lm`) as batches and the model grow.

Batches grow in rows of 256 tokens, the model in layers (with batches of 8 rows). Products of matrices should not cost
more for each token, whatever the size. Programs take turns. Ratios are the cost of a token / that of the first row, of CPU
time; for layers, of the part that one more layer adds: it is computed from two neighbouring rows and compared with the first
such pair.
"""

import statistics

from comparisons.training import start_ours
from harness.trainers import take_turns
from peers.shapes import SHAPES, tokens_per_step

SUMMARY = "cost of a token in larger batches and deeper models"
PROGRAMS = ("mtf-train",)
PEERS = ()
ALONE = True
QUICK = {"rows": [2, 4], "layers": [1, 2], "rounds": 1, "seconds": 0.1}


def add_arguments(parser):
    numbers = lambda text: [int(number) for number in text.split(",") if number]
    parser.add_argument(
        "--rows", type=numbers, default=[8, 16, 32, 64, 128], help="of 256 tokens in a batch; '' for no such table"
    )
    parser.add_argument("--layers", type=numbers, default=[2, 6, 12, 24, 48], help="'' for no such table")
    parser.set_defaults(rounds=2, seconds=1, optimizer="adam")


def measure(session, threads, sizes):
    """Figures for each of the sizes, which are named as in peers/shapes.py."""
    options = session.options
    starts = [lambda size=size: start_ours(session, "lm", threads, str(size), **size) for size in sizes]
    return take_turns(starts, options.rounds, options.seconds, unequal=[str(size) for size in sizes])


def of_token(figures, tokens, what):
    """Microseconds."""
    return 1000 * figures.median(what) / tokens


def print_batches(session, threads):
    rows, length = session.options.rows, SHAPES["lm"]["length"]
    table = session.table(
        f"batches, threads: {threads}", "tokens of a batch", "wall µs of a token", "CPU µs of a token", "ratio", "peak memory"
    )
    figures = measure(session, threads, [{"rows": count} for count in rows])
    for count, each in zip(rows, figures, strict=True):
        ratio = statistics.median(each.cpu[i] / count / (figures[0].cpu[i] / rows[0]) for i in range(session.options.rounds))
        costs = [f"{of_token(each, count * length, what):.1f}" for what in ("wall", "cpu")]
        table.row(f"{count * length:,}", *costs, f"{ratio:.2f}", f"{each.peak / 1e6:,.0f} MB")


def print_layers(session, threads):
    layers, tokens = session.options.layers, tokens_per_step("lm")
    table = session.table(
        f"layers, batches of {tokens:,} tokens, threads: {threads}", "layers", "wall µs of a token", "CPU µs of a token",
        "CPU µs of one more layer", "ratio", "peak memory",
    )  # fmt: skip
    figures = measure(session, threads, [{"layers": count} for count in layers])
    first = None
    for number, each in enumerate(figures):
        costs = [f"{of_token(each, tokens, what):.1f}" for what in ("wall", "cpu")]
        more, ratio = "", ""
        if number > 0:
            before = figures[number - 1]
            added = (each.median("cpu") - before.median("cpu")) / (layers[number] - layers[number - 1])
            first = first or added
            more, ratio = f"{1000 * added / tokens:.1f}", f"{added / first:.2f}"
        table.row(layers[number], *costs, more, ratio, f"{each.peak / 1e6:,.0f} MB")


def run(session):
    for threads in session.options.threads:
        if session.options.rows:
            print_batches(session, threads)
        if session.options.layers:
            print_layers(session, threads)
