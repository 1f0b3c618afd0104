"""Milliseconds of a token of one text at a time from a language model of 117 million parameters, which is bound by memory: on
one position, on two positions of one process, and on two processes of one position each.

The model is split by heads, d_ff and vocab. One token reads 468 MB of weights, more than caches hold. Runs take turns and
must write the same texts, those of a model that has learned nothing; the first text of each warms it up and does not count.
"""

import json
import os
import socket
import statistics
import subprocess
import time

from harness.commands import alternate

SUMMARY = "time of a token on two positions and on two processes"
PROGRAMS = ("mtf-train",)
PEERS = ()
ALONE = True
QUICK = {"rounds": 1, "layers": 1, "length": 16}
SPLIT = ["mesh=x:2", "layout=heads:x;d_ff:x;vocab:x"]
CONFIG = """
data:
  train: {{type: text, path: train.txt}}
  vocabulary: bytes
  sequence_length: 16
  cache: cache
model:
  type: lm
  d_model: 1024
  num_layers: {layers}
  max_length: 256
  layer_defaults:
    SelfAttention: {{num_heads: 16, key_value_size: 64}}
    DenseReluDense: {{hidden_size: 4096}}
  block: [SelfAttention, DenseReluDense]
optimizer: adafactor
train: {{steps: 1, batch_size: 4, log_every: 1}}
checkpoint: {{every: 1}}
infer: {{method: greedy, batch_size: 1, max_length: {length}, format: jsonl}}
"""


def add_arguments(parser):
    parser.add_argument("--layers", type=int, default=9)
    parser.add_argument("--length", type=int, default=100, help="tokens of a text")
    parser.set_defaults(rounds=5)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def start(session, arguments, rank=0, processes=1, port="0"):
    command = [session.options.mtf_train, "run/config.yaml", "run.mode=infer", *arguments]
    variables = {"WORLD_SIZE": str(processes), "RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    with open(session.path(f"log_{rank}"), "w", encoding="utf-8") as log:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
            cwd=session.work, env={**os.environ, **(variables if processes > 1 else {})},
        )  # fmt: skip


def measure(session, arguments, processes=1):
    """Milliseconds of a token of the second text, and both texts."""
    port = free_port()
    programs = [start(session, arguments, rank, processes, port) for rank in range(processes)]
    first, *others = programs
    texts, seconds = [], 0
    for prompt in ("12", "345"):
        begin = time.monotonic()
        first.stdin.write(prompt + "\n")
        first.stdin.flush()
        line = first.stdout.readline()
        seconds = time.monotonic() - begin
        if not line:
            with open(session.path("log_0"), encoding="utf-8") as log:
                raise SystemExit(f"mtf-train has written no text:\n{log.read()[-3000:]}")
        texts.append(json.loads(line)["pieces"])
    for program in [first, *others]:
        program.communicate()
    return 1000 * seconds / len(texts[1]), texts


def run(session):
    options = session.options
    session.write("train.txt", "".join(f"{number}\n" for number in range(1, 2001)))
    session.write("model.yaml", CONFIG.format(layers=options.layers, length=options.length))
    session.mtf_train("model.yaml", "run.model_dir=run")
    calls = {
        "one position, one thread": lambda: measure(session, ["run.threads=1"]),
        "one position, two threads": lambda: measure(session, ["run.threads=2"]),
        "two positions, two threads": lambda: measure(session, ["run.threads=2", *SPLIT]),
        "two processes, a thread each": lambda: measure(session, ["run.threads=1", *SPLIT], processes=2),
    }
    results = alternate(calls, options.rounds)
    table = session.table(f"{options.rounds} rounds in turns", "", "ms of a token, median", "least", "largest")
    expected = next(iter(results.values()))[0][1]
    for name, rounds in results.items():
        times = [milliseconds for milliseconds, _ in rounds]
        table.row(name, *(f"{value:.2f}" for value in (statistics.median(times), min(times), max(times))))
        session.check(all(texts == expected for _, texts in rounds), f"{name}: other texts than on one position")
