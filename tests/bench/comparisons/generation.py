"""Texts by a language model of GPT-2's shape (12 layers of 768, vocabulary 50,304, random weights), one at a time, greedy:
what share of the bandwidth of memory a step reaches that reads all weights once; and llama.cpp with the same shape in the
same run.

The bandwidth is that of a loop that only reads (read_bandwidth.cc), measured in turns with the programs. A step reads the weights of
all layers and the table of tokens, in float32 (f32), bfloat16 or float16 (f16), or 8 bits with a scale for each column (int8) or
for 32 of them (q8_0). Start-up is not counted: rates are differences between a text of the full length and a short one, both
behind a prompt of 31 tokens. Ratios are the rate of mtf-train / that of llama.cpp, with weights of as many bits on both sides.
"""

import json
import statistics

from comparisons.training_models import write_text
from harness.commands import alternate
from harness.machine import read_bandwidth
from harness.workers import Worker

SUMMARY = "tokens a second of one text, as a share of the bandwidth of memory: llama.cpp"
PROGRAMS = ("mtf-train",)
PEERS = ("f32", "f16", "q8_0")
ALONE = True
QUICK = {"layers": 2, "length": 24, "rounds": 1}
WIDTH, HIDDEN, HEADS, VOCABULARY, PROMPT, SHORT = 768, 3072, 12, 50304, 32, 8
BYTES = {"float32": 4, "bfloat16": 2, "int8": 1, "f32": 4, "f16": 2, "q8_0": 34 / 32}  # a weight
OWN = {"f32": "float32", "f16": "bfloat16", "q8_0": "int8"}  # what is compared with it


def add_arguments(parser):
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--length", type=int, default=136, help="tokens of the long text, 8 of which do not count")
    parser.set_defaults(rounds=5)


def weights(layers):
    """That a step reads."""
    return layers * (4 * WIDTH * WIDTH + 2 * WIDTH * HIDDEN) + VOCABULARY * WIDTH


def prepare(session):
    write_text(session.path("prompt.txt"), 1, PROMPT)
    config = f"""
data: {{train: {{type: text, path: prompt.txt}}, vocabulary: bytes, sequence_length: {PROMPT}, packing: none}}
model:
  type: lm
  num_layers: {session.options.layers}
  block: [SelfAttention, DenseReluDense]
  d_model: {WIDTH}
  max_length: 1024
  positions: learned
  vocab_divisor: {VOCABULARY}
  layer_defaults:
    SelfAttention: {{num_heads: {HEADS}, key_value_size: {WIDTH // HEADS}}}
    DenseReluDense: {{hidden_size: {HIDDEN}}}
optimizer: sgd
learning_rate: 0
train: {{steps: 1, batch_size: 1}}
infer: {{method: greedy, batch_size: 1, format: jsonl, input: prompt.txt, output: text.jsonl}}
"""
    session.write("model.yaml", config)
    session.mtf_train("model.yaml", "run.model_dir=run")


def generate(session, threads, kind):
    """Tokens a second."""
    results = []
    for length in (session.options.length, SHORT):
        precision = "same" if kind == "float32" else kind
        arguments = ["run/config.yaml", "run.mode=infer", f"precision.infer={precision}", f"infer.max_length={length}"]
        cost = session.mtf_train(*arguments, threads=threads)
        with open(session.path("text.jsonl"), encoding="utf-8") as file:
            results.append((len(json.loads(file.readline())["pieces"]), cost.wall))
    (long, long_seconds), (short, short_seconds) = results
    return (long - short) / (long_seconds - short_seconds)


def start_llama(session, threads, kind):
    sizes = [session.options.layers, WIDTH, HIDDEN, HEADS, VOCABULARY]
    command = session.peer("llama", "llama_generation.py", session.path(f"model_{kind}.gguf"), kind, threads, *sizes)
    return Worker(f"llama.cpp, {kind}", command, threads, {"OMP_NUM_THREADS": str(threads)})


def generate_by_llama(worker, length):
    costs = [worker.ask(what="generate", prompt=PROMPT - 1, length=tokens)[1] for tokens in (length, SHORT)]
    return (length - SHORT) / (costs[0].wall - costs[1].wall)


def compare(session, table, threads):
    options = session.options
    workers = {kind: start_llama(session, threads, kind) for kind in options.peers}
    own = [OWN[kind] for kind in options.peers] or list(OWN.values())
    try:
        calls = {"bandwidth": lambda: read_bandwidth(threads, session.work)}
        for kind in own:
            calls[kind] = lambda kind=kind: generate(session, threads, kind)
        for kind, worker in workers.items():
            calls[kind] = lambda worker=worker: generate_by_llama(worker, options.length)
        rates = {name: statistics.median(found) for name, found in alternate(calls, options.rounds).items()}
    finally:
        for worker in workers.values():
            worker.__exit__()
    bandwidth = rates.pop("bandwidth")
    for name, rate in rates.items():
        read = rate * weights(options.layers) * BYTES[name]
        table.row(
            f"llama.cpp, {name}" if name in OWN else f"mtf-train, {name}",
            threads,
            f"{rate:.1f}",
            f"{rates[OWN[name]] / rate:.2f}" if name in OWN else "",
            f"{read / 1e9:.1f} GB/s",
            f"{read / bandwidth:.0%} of {bandwidth / 1e9:.1f} GB/s",
        )


def run(session):
    prepare(session)
    title = f"{session.options.layers} layers of {WIDTH}, {session.options.rounds} rounds in turns"
    table = session.table(title, "program", "threads", "tokens/s", "ratio", "weights read", "of the bandwidth")
    for threads in session.options.threads:
        compare(session, table, threads)
